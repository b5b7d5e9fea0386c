// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <vector>

#include <kerkis/schedule/communication.hpp>
#include <kerkis/schedule/detail/array.hpp>
#include <kerkis/schedule/report.hpp>
#include <kerkis/schedule/table.hpp>

namespace kerkis::schedule::detail {

/// Plays a table with valid lists under the rules of `verify`. What is posted stays posted and can only help others, so
/// every order of playing ends in the same state: one suffices. Linear in the number of actions: a rank that waits is
/// looked at again only when its message moves.
class Trial {
 public:
  constexpr Trial(const Table& table, const Communication& communication, Depth depth)
      : table_(table), communication_(communication),
        depth_{std::clamp(depth.receives, 0, communication.size()), std::clamp(depth.sends, 0, communication.size())},
        ranks_(table.ranks()), messages_(communication.size() + 1), ready_(table.ranks()) {
    for (const Channel& channel : communication.channels()) {
      for (int k = 0; k < depth_.receives && k < channel.size; ++k) {
        post_receive(communication.consumed(channel.first + k), channel);
      }
    }
  }

  /// Whether every rank comes to its end.
  constexpr bool run() {
    for (int rank = table_.ranks(); rank-- > 0;) ready_[ready_count_++] = rank;
    while (ready_count_ > 0) advance(ready_[--ready_count_]);
    return first_stuck() < 0;
  }

  /// After a `run` that failed: ranks that wait for each other in a circle.
  constexpr std::vector<Wait> cycle() const {
    int rank = first_stuck();
    for (int step = 0; step < table_.ranks(); ++step) rank = wait_of(rank).peer;  // now it is on the circle
    std::vector<Wait> circle;
    do {
      circle.push_back(wait_of(rank));
      rank = circle.back().peer;
    } while (rank != circle.front().rank);
    return circle;
  }

 private:
  struct Rank {
    int next = 0;                // position in its list
    bool computed = false;       // that action has run, and its send is posted
    int waits_for = no_message;  // where it stands still
  };
  struct State {
    bool send_posted = false;
    bool receive_posted = false;
  };

  constexpr void advance(int rank) {
    Rank& me = ranks_[rank];
    const int end = static_cast<int>(table_.actions(rank).size());
    while (me.next < end) {
      const Handoff& handoff = communication_.handoff(rank, me.next);
      if (!me.computed) {
        if (handoff.input != no_message && !receive(me, handoff)) return;
        if (handoff.output != no_message) post_send(handoff.output);
        me.computed = true;
      }
      if (handoff.output != no_message && !may_leave(me, handoff.output)) return;
      me.computed = false;
      ++me.next;
    }
  }

  constexpr bool receive(Rank& me, const Handoff& handoff) {
    const Channel& channel = communication_.channel(handoff.input);
    if (depth_.receives == 0) post_receive(handoff.input, channel);
    if (!messages_[handoff.input].send_posted) {
      me.waits_for = handoff.input;
      return false;
    }
    const int later = handoff.place + depth_.receives;
    if (depth_.receives > 0 && later < channel.first + channel.size) {
      post_receive(communication_.consumed(later), channel);
    }
    return true;
  }

  constexpr bool may_leave(Rank& me, int output) {
    const int oldest = output - depth_.sends;
    if (oldest < communication_.channel(output).first || messages_[oldest].receive_posted) return true;
    me.waits_for = oldest;
    return false;
  }

  constexpr void post_receive(int message, const Channel& channel) {
    messages_[message].receive_posted = true;
    wake(channel.source, message);
  }

  constexpr void post_send(int message) {
    messages_[message].send_posted = true;
    wake(communication_.channel(message).destination, message);
  }

  constexpr void wake(int rank, int message) {
    Rank& other = ranks_[rank];
    if (other.waits_for != message) return;
    other.waits_for = no_message;
    ready_[ready_count_++] = rank;
  }

  constexpr int first_stuck() const {
    for (int rank = 0; rank < table_.ranks(); ++rank) {
      if (ranks_[rank].waits_for != no_message) return rank;
    }
    return -1;
  }

  constexpr Wait wait_of(int rank) const {
    const Rank& me = ranks_[rank];
    const Channel& channel = communication_.channel(me.waits_for);
    const Action action = table_.actions(rank)[static_cast<std::size_t>(me.next)];
    const int peer = me.computed ? channel.destination : channel.source;
    return {rank, peer, me.computed, action, communication_.message(me.waits_for)};
  }

  const Table& table_;
  const Communication& communication_;
  Depth depth_;
  Array<Rank> ranks_;
  Array<State> messages_;
  Array<int> ready_;  // ranks that may move, each at most once
  int ready_count_ = 0;
};

}  // namespace kerkis::schedule::detail
