// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include <kerkis/schedule/action.hpp>
#include <kerkis/schedule/simulator.hpp>

namespace kerkis::schedule::detail {

/// What a rank prefers where its list could go on in several ways.
struct Policy {
  enum class Ready : unsigned char { backward, alternate, forward };

  Ready first = Ready::backward;  ///< of a forward and a backward_input that are both ready
  double patience = 0;            ///< a forward waits for a gradient that comes within this share of its time
  double filler = 0;              ///< a backward_weight is started if nothing comes within this share of its time
  double lead = 0;                ///< rank r begins at most lead * (ranks - r) forwards ahead of their backward_input
  double memory = 0;              ///< the limit of Automatic
};

/// The combinations to try. Finer steps than the finest, or a limit on the backward_weights owed, shorten schedules by
/// 0.05 % on average; the coarser ones lengthen them by as much.
inline std::vector<Policy> policies(bool fine) {
  std::vector<Policy> all;
  const std::vector<double> shares = fine ? std::vector<double>{0, 0.25, 0.5, 0.75, 1} : std::vector<double>{0, 0.5, 1};
  const std::vector<double> leads = fine ? std::vector<double>{1, 1.5, 2, 3} : std::vector<double>{1, 2};
  for (const auto first : {Policy::Ready::backward, Policy::Ready::alternate, Policy::Ready::forward}) {
    for (const double patience : shares) {
      for (const double filler : shares) {
        for (const double lead : leads) all.push_back({first, patience, filler, lead});
        all.push_back({first, patience, filler, std::numeric_limits<double>::infinity()});
      }
    }
  }
  return all;
}

/// Builds the lists of all ranks at once, in the order of time, by a policy: every rank takes what is ready, in
/// ascending order of microbatches. One chunk per rank.
class ListScheduler {
 public:
  /// times: of each rank, or one entry for all. Keeps references.
  ListScheduler(PipelineShape shape, std::span<const Times> times, double weight_share, bool barrier)
      : shape_(shape), times_(times), weight_share_(weight_share), barrier_(barrier), ranks_(index(shape.ranks)) {
    for (Rank& rank : ranks_) {
      rank.activations.resize(index(shape.microbatches));
      rank.gradients.resize(index(shape.microbatches));
      rank.list.reserve(3 * index(shape.microbatches));
    }
    tail_.push_back(this->times(0).backward_weight);
    for (int r = 1; r < shape.ranks; ++r) {
      tail_.push_back(tail_.back() + this->times(r).communication + this->times(r - 1).backward_input);
    }
  }

  /// The span (with a barrier: the makespan) of the lists that it builds; infinity once it can't be within `bound`.
  double run(const Policy& policy, double bound) {
    start();
    while (!queue_.empty()) {
      const auto [now, r] = queue_.front();
      std::pop_heap(queue_.begin(), queue_.end(), std::greater<>());
      queue_.pop_back();
      Rank& me = ranks_[index(r)];
      if (now != me.wake) continue;  // it was woken earlier
      const Choice choice = choose(policy, r, now);
      if (choice.kind == Kind::wait) {
        wake(r, choice.until, true);
      } else {
        take(r, choice.kind, now);
        if ((barrier_ ? me.last : me.last - me.first) + me.left > bound) return never;
        if (choice.kind != Kind::weight && me.last + me.before_last + tail_[index(r)] > bound) return never;
      }
    }
    double longest = 0;
    for (const Rank& rank : ranks_) {
      if (!finished(rank)) return never;
      longest = std::max(longest, barrier_ ? rank.last : rank.last - rank.first);
    }
    return longest;
  }

  /// Of the last run that came to its end.
  std::vector<ActionList> lists() const {
    std::vector<ActionList> all;
    for (const Rank& rank : ranks_) {
      ActionList& list = all.emplace_back();
      list.reserve(rank.list.size());
      int forwards = 0, inputs = 0, weights = 0;
      for (const Kind kind : rank.list) {
        if (kind == Kind::forward) list.forward(forwards++);
        if (kind == Kind::input) list.backward_input(inputs++);
        if (kind == Kind::weight) list.backward_weight(weights++);
      }
    }
    return all;
  }

 private:
  static constexpr double never = std::numeric_limits<double>::infinity();

  enum class Kind : unsigned char { wait, forward, input, weight };
  struct Choice {
    Kind kind;
    double until = never;  // when waiting
  };
  struct Rank {
    std::vector<double> activations, gradients;  // when they arrive, per microbatch, once they are sent
    int forwards = 0, inputs = 0, weights = 0;   // begun
    bool forward_was_last = false;               // of forward and backward_input
    double free = 0, wake = never;               // when it can act, and when it will look
    double first = -1, last = 0;                 // start and end
    double left = 0;                             // work not begun
    double before_last = 0;                      // of that, what comes before the last gradient is sent
    std::vector<Kind> list;
  };
  struct Event {
    double time;
    int rank;
    friend auto operator<=>(const Event&, const Event&) = default;
  };

  static std::size_t index(int value) noexcept { return static_cast<std::size_t>(value); }
  const Times& times(int rank) const { return times_[times_.size() == 1 ? 0 : index(rank)]; }
  bool finished(const Rank& rank) const { return rank.weights == shape_.microbatches; }

  void start() {
    queue_.clear();
    for (int r = 0; r < shape_.ranks; ++r) {
      Rank& rank = ranks_[index(r)];
      rank.forwards = rank.inputs = rank.weights = 0;
      rank.forward_was_last = false;
      rank.free = rank.last = 0;
      rank.first = -1;
      rank.wake = never;
      const Times& t = times(r);
      rank.before_last = shape_.microbatches * (t.forward + t.backward_input);
      rank.left = rank.before_last + shape_.microbatches * t.backward_weight;
      rank.list.clear();
    }
    wake(0, 0, false);
  }

  void wake(int r, double time, bool anew) {
    Rank& rank = ranks_[index(r)];
    time = std::max(time, rank.free);
    if (!anew && time >= rank.wake) return;
    rank.wake = time;
    if (time == never) return;
    queue_.push_back({time, r});
    std::push_heap(queue_.begin(), queue_.end(), std::greater<>());
  }

  Choice choose(const Policy& policy, int r, double now) const {
    const Rank& me = ranks_[index(r)];
    const Times& t = times(r);
    const int live = me.forwards - me.inputs, pending = me.inputs - me.weights;
    const bool room = live + 1 + weight_share_ * pending <= policy.memory + 1e-9 &&
                      live < std::ceil(policy.lead * (shape_.ranks - r));
    // What has not been sent yet may come at any time.
    const int activations = r == 0 ? shape_.microbatches : ranks_[index(r - 1)].forwards;
    const int gradients = r + 1 == shape_.ranks ? me.forwards : ranks_[index(r + 1)].inputs;
    const double activation = me.forwards < activations ? me.activations[index(me.forwards)] : never;
    const double gradient = me.inputs < gradients ? me.gradients[index(me.inputs)] : never;
    const bool may_forward = activation <= now && room, may_backward = gradient <= now;

    if (may_backward) {
      const bool turn =
          policy.first == Policy::Ready::alternate ? !me.forward_was_last : policy.first == Policy::Ready::forward;
      return {may_forward && turn ? Kind::forward : Kind::input};
    }
    const double gap = gradient - now;
    const bool fits = pending > 0 && gap >= policy.filler * t.backward_weight;
    if (may_forward) {
      if (gap >= policy.patience * t.forward) return {Kind::forward};
      return fits ? Choice{Kind::weight} : Choice{Kind::wait, gradient};
    }
    // Without room an activation that is here helps nobody: a backward_weight makes room.
    const double next = std::min(room ? activation : never, gradient);
    if (pending > 0 && next - now >= policy.filler * t.backward_weight) return {Kind::weight};
    return {Kind::wait, next};
  }

  void take(int r, Kind kind, double now) {
    Rank& me = ranks_[index(r)];
    const Times& t = times(r);
    const double duration = kind == Kind::forward ? t.forward
                            : kind == Kind::input ? t.backward_input
                                                  : t.backward_weight;
    me.list.push_back(kind);
    if (me.first < 0) me.first = now;
    me.last = me.free = now + duration;
    me.left -= duration;
    if (kind != Kind::weight) me.before_last -= duration;
    if (kind == Kind::forward) {
      const int m = me.forwards++;
      me.forward_was_last = true;
      if (r + 1 < shape_.ranks) {
        send(ranks_[index(r + 1)].activations[index(m)], r, r + 1);
      } else {
        me.gradients[index(m)] = me.last;
      }
    } else if (kind == Kind::input) {
      const int m = me.inputs++;
      me.forward_was_last = false;
      if (r > 0) send(ranks_[index(r - 1)].gradients[index(m)], r, r - 1);
    } else {
      ++me.weights;
    }
    wake(r, finished(me) ? never : me.free, true);
  }

  void send(double& arrival, int r, int to) {
    Rank& me = ranks_[index(r)];
    const Times& t = times(r);
    arrival = me.last + t.communication;
    me.free += (1 - t.overlap) * t.communication;
    wake(to, arrival, false);
  }

  PipelineShape shape_;
  std::span<const Times> times_;
  double weight_share_;
  bool barrier_;
  std::vector<double> tail_;  // the least time from the last gradient that a rank sends to the end of the first rank
  std::vector<Rank> ranks_;
  std::vector<Event> queue_;  // a heap, the earliest first
};

}  // namespace kerkis::schedule::detail
