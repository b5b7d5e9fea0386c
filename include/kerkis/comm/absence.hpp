// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <kerkis/comm/group.hpp>
#include <kerkis/comm/peers.hpp>
#include <kerkis/comm/pending.hpp>

namespace kerkis::comm {

/// 31.26 s as 31.3
inline double tenths(std::int64_t milliseconds) { return static_cast<double>((milliseconds + 50) / 100) / 10; }

/// "rank 2 last entered broadcast #1042 at loader.hpp:51, 31 s ago"; the communicator is named if `number` is
/// another's.
inline std::string last_entered(int rank, const PeerState& state, int number) {
  std::string text = message("rank ", rank);
  if (state.process == ProcessState::gone) return text + " does not answer: its process is gone";
  if (state.process == ProcessState::stopped) text += " does not answer";
  if (state.entered_any == 0) return state.process == ProcessState::stopped ? text : text + " has entered nothing yet";
  if (state.process == ProcessState::stopped) text += "; it";
  const Site& last = state.last;
  const std::string ago = message(", ", tenths(state.age), " s ago");
  if (last.line == 0) return text + message(" has come to the ", last.name.data(), " of '", last.axis.data(), "'", ago);
  text += message(" last entered ", last.name.data());
  if (state.last_sequence > 0) text += message(" #", state.last_sequence);
  if (last.group != number) text += message(" over '", last.axis.data(), "'");
  return text + message(" at ", last.file.data(), ":", last.line, ago);
}

/// For the report of a deadline: which ranks of `group` (null: all) have not come to `operation`, or have not done
/// their part of a hand-off whose sides have got so far, and what they do. The first few are described. `own`: this
/// rank, in the root communicator; `checks`: the checking mode is on.
inline std::string absence(const Peers& peers, const Group* group, int own, const Operation& operation,
                           const Sides& sides, bool checks) {
  const int to = sides.send.under_way ? operation.to : no_rank;
  const int from = sides.receive.under_way ? operation.from : no_rank;
  std::vector<int> members, ranks;
  for (int member = 0; member < (group != nullptr ? group->size : peers.ranks()); ++member) {
    if (root_rank(group, member) == own) continue;
    if (!operation.collective && member != to && member != from && from != any_rank) continue;
    members.push_back(member);
    ranks.push_back(root_rank(group, member));
  }
  const int number = group != nullptr ? group->number : 0;
  const auto states = peers.states(ranks, number);
  std::vector<int> absent, silent, unclear, unknown;
  std::string details;
  int described = 0;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const PeerState& state = states[i];
    const bool runs = state.process == ProcessState::runs;
    if (state.process == ProcessState::unknown) {
      unknown.push_back(members[i]);
      continue;
    }
    if (operation.collective) {
      const bool has_come = state.sequence >= static_cast<std::int64_t>(operation.sequence);
      if (has_come && runs) continue;
      (has_come ? silent : runs && state.sequence < 0 ? unclear : absent).push_back(members[i]);
    }
    if (++described <= 8) details += message(details.empty() ? "" : "; ", last_entered(ranks[i], state, number));
  }
  std::string text;
  const auto add = [&](const char* before, const std::vector<int>& some, const char* one, const char* many) {
    if (!some.empty()) text += message("; ", before, rank_list(group, some), some.size() == 1 ? one : many);
  };
  const auto add_pieces = [&](const Side& side) {
    if (side.moved > 0) text += message(" to its end, but ", side.moved, " of its ", side.pieces, " pieces");
  };
  if (to >= 0) {
    add("the message to ", {to}, " has not been received", "");
    add_pieces(sides.send);
  }
  if (from >= 0) add("the message from ", {from}, " has not come", "");
  if (from == any_rank) text += "; no message has come";
  if (from != no_rank) add_pieces(sides.receive);
  add("", absent, " has not come", " have not come");
  add("", silent, " has come, but does not answer", " have come, but do not answer");
  add("it is not known whether ", unclear, " has come", " have come");
  if (!details.empty()) text += ": " + details;
  add("the state of ", unknown, " is unknown", " is unknown");
  if (text.empty() && operation.collective)
    return checks
               ? "; every rank has come, with calls that match: one may compute without poll()"
               : "; every rank has come: one may compute without poll(), or calls do not match (KERKIS_CHECK=1 says)";
  return text;
}

}  // namespace kerkis::comm
