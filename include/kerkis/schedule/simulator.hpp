// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include <kerkis/core/error.hpp>
#include <kerkis/schedule/action.hpp>
#include <kerkis/schedule/communication.hpp>
#include <kerkis/schedule/detail/array.hpp>
#include <kerkis/schedule/table.hpp>

namespace kerkis::schedule {

/// What one microbatch takes, in any unit, on a rank with all its chunks or on one stage: `simulate` says which.
struct Times {
  double forward = 1;          ///< of the activations
  double backward_input = 1;   ///< of the gradient of the input
  double backward_weight = 1;  ///< of the gradients of the parameters
  double communication = 0;    ///< the delay of a message sent
  double overlap = 1;  ///< the share of it hidden behind computation: for the rest the sender can do nothing else

  /// All that an action of this kind computes.
  [[nodiscard]] constexpr double of(ActionKind kind) const noexcept {
    return (computes_forward(kind) ? forward : 0.0) + (computes_input_gradient(kind) ? backward_input : 0.0) +
           (computes_weight_gradient(kind) ? backward_weight : 0.0);
  }
};

/// When an action runs, and the action that it came right after: its sender, if it waited for a message, or the one
/// before it on its rank.
struct Interval {
  double start = 0;         ///< from the start of the timeline
  double end = 0;           ///< likewise
  int after_rank = -1;      ///< whose action it came after; -1: it ran at once
  int after_position = -1;  ///< of that action in its rank's list
};

/// When every action runs, and what follows. Times are in the unit of the durations given.
struct Timeline {
  std::vector<std::vector<Interval>> actions;  ///< per rank, as in its list
  double span = 0;      ///< the longest any rank takes from its first start to its last end: a step without a barrier
  double makespan = 0;  ///< the last end of all: the step's time with a barrier before the optimizer
  double bubble_rate = 0;  ///< the share of the span in which the ranks, on average, compute nothing
};

/// One action of a critical path.
struct CriticalStep {
  int rank = 0;         ///< who does it
  int position = 0;     ///< in the rank's list
  Action action;        ///< what it is
  double delay = 0;     ///< from the end of the one before it: a message's way
  double duration = 0;  ///< from its start to its end
};

/// What a stage keeps for one microbatch, in any unit (bytes, say). Both count from the forward on.
struct StageMemory {
  double until_input = 0;   ///< until the end of its backward_input
  double until_weight = 0;  ///< until the end of its backward_weight
};

namespace detail {

/// Throws InputError unless all are numbers of at least 0, below infinity, and overlap is at most 1.
constexpr void check_times(const Times& times) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const auto good = [](double value) { return value >= 0 && value < infinity; };
  if (good(times.forward) && good(times.backward_input) && good(times.backward_weight) && good(times.communication) &&
      times.overlap >= 0 && times.overlap <= 1) {
    return;
  }
  throw InputError(message("times of a stage must be finite and not negative, overlap from 0 to 1: forward ",
                           times.forward, ", backward_input ", times.backward_input, ", backward_weight ",
                           times.backward_weight, ", communication ", times.communication, ", overlap ",
                           times.overlap));
}

/// Throws InputError unless there is one entry for all stages or one for each.
constexpr void check_entries(const Table& table, std::size_t entries) {
  if (entries == 1 || entries == static_cast<std::size_t>(table.stages())) return;
  throw InputError(message(entries, " entries for ", table.stages(), " stages: give one for all, or one for each"));
}

/// Plays a table; see `simulate`.
class Play {
 public:
  constexpr Play(const Table& table, std::span<const Times> stages, double scale)
      : table_(table), stages_(stages), scale_(scale), communication_(table), sent_(communication_.size() + 1),
        ranks_(table.ranks()), ready_(table.ranks()) {}

  constexpr Timeline run() {
    line_.actions.resize(index(table_.ranks()));
    for (int rank = table_.ranks(); rank-- > 0;) ready_[ready_count_++] = rank;
    while (ready_count_ > 0) advance(ready_[--ready_count_]);
    add_up();
    return std::move(line_);
  }

 private:
  struct Sent {
    bool yes = false;
    double arrival = 0;
    int position = 0;  // of the action that sent it
  };
  struct Rank {
    double free = 0;             // from when on it can start an action
    double work = 0;             // computed so far
    int waits_for = no_message;  // where it stands still
  };

  static constexpr std::size_t index(int value) noexcept { return static_cast<std::size_t>(value); }

  constexpr const Times& times(int stage) const { return stages_[stages_.size() == 1 ? 0 : index(stage)]; }

  // Works the rank's list until it waits for a message.
  constexpr void advance(int rank) {
    Rank& me = ranks_[rank];
    std::vector<Interval>& done = line_.actions[index(rank)];
    const auto actions = table_.actions(rank);
    done.reserve(actions.size());
    while (done.size() < actions.size()) {
      const int position = static_cast<int>(done.size());
      const Handoff& handoff = communication_.handoff(rank, position);
      Interval when{.start = me.free, .after_rank = position > 0 ? rank : -1, .after_position = position - 1};
      if (handoff.input != no_message) {
        const Sent& input = sent_[handoff.input];
        if (!input.yes) {
          me.waits_for = handoff.input;
          return;
        }
        if (input.arrival > me.free) {
          when = {.start = input.arrival,
                  .after_rank = communication_.channel(handoff.input).source,
                  .after_position = input.position};
        }
      }
      const Action& action = actions[done.size()];
      const Times& mine = times(table_.stage(rank, action.chunk));
      when.end = when.start + mine.of(action.kind) * scale_;
      me.work += when.end - when.start;
      me.free = when.end;
      if (handoff.output != no_message) {
        me.free += (1 - mine.overlap) * mine.communication;
        send(handoff.output, {true, when.end + mine.communication, position});
      }
      done.push_back(when);
    }
  }

  constexpr void send(int number, Sent message) {
    sent_[number] = message;
    const int other = communication_.channel(number).destination;
    if (ranks_[other].waits_for != number) return;
    ranks_[other].waits_for = no_message;
    ready_[ready_count_++] = other;
  }

  constexpr void add_up() {
    double work = 0;
    for (int rank = 0; rank < table_.ranks(); ++rank) {
      const std::vector<Interval>& done = line_.actions[index(rank)];
      if (ranks_[rank].waits_for != no_message) {
        line_.span = line_.makespan = std::numeric_limits<double>::infinity();
      }
      if (done.empty()) continue;
      work += ranks_[rank].work;
      line_.span = std::max(line_.span, done.back().end - done.front().start);
      line_.makespan = std::max(line_.makespan, done.back().end);
    }
    if (line_.span > 0) line_.bubble_rate = std::max(0.0, 1 - work / table_.ranks() / line_.span);
  }

  const Table& table_;
  std::span<const Times> stages_;
  double scale_;  // of the times of actions
  Communication communication_;
  Array<Sent> sent_;  // by message
  Array<Rank> ranks_;
  Array<int> ready_;  // ranks that may move, each at most once
  int ready_count_ = 0;
  Timeline line_;
};

}  // namespace detail

/// Plays a table with each rank working its list in order as soon as its inputs are there, with messages as deep as
/// need be: the rules of Qi et al. 2024, arXiv:2401.10241. A table that deadlocks at any depth takes for ever: infinite
/// span and makespan, a bubble rate of 1. Its lists must be valid otherwise (`verify`).
///
/// stages: the times of each stage (communication: of what that stage sends), or one entry for every stage. Throws
/// InputError if there are more or fewer, or a time is negative or not finite.
[[nodiscard]] constexpr Timeline simulate(const Table& table, std::span<const Times> stages) {
  detail::check_entries(table, stages.size());
  for (const Times& times : stages) detail::check_times(times);
  return detail::Play(table, stages, 1).run();
}

/// The same for ranks that are all alike: `times` are those of a rank, of which each chunk takes its share.
[[nodiscard]] constexpr Timeline simulate(const Table& table, const Times& times) {
  detail::check_times(times);
  return detail::Play(table, {&times, 1}, 1.0 / table.chunks()).run();
}

/// Why a timeline takes as long as it does: the chain of actions, from the start to the last end of all, each of which
/// starts as soon as the one before it allows. Delays and durations sum to the makespan. Of several such chains the one
/// that stays on its rank longest, seen from the end. Empty if the table deadlocks.
[[nodiscard]] constexpr std::vector<CriticalStep> critical_path(const Table& table, const Timeline& line) {
  std::vector<CriticalStep> path;
  if (line.makespan == std::numeric_limits<double>::infinity()) return path;
  int rank = -1, position = -1;
  double last = 0;
  for (int r = 0; r < table.ranks(); ++r) {
    const auto& actions = line.actions[static_cast<std::size_t>(r)];
    if (actions.empty() || (rank >= 0 && actions.back().end <= last)) continue;
    rank = r;
    position = static_cast<int>(actions.size()) - 1;
    last = actions.back().end;
  }
  const auto at = [&](int r, int k) -> const Interval& {
    return line.actions[static_cast<std::size_t>(r)][static_cast<std::size_t>(k)];
  };
  while (rank >= 0) {
    const Interval& when = at(rank, position);
    const double before = when.after_rank < 0 ? 0 : at(when.after_rank, when.after_position).end;
    path.push_back({rank, position, table.actions(rank)[static_cast<std::size_t>(position)], when.start - before,
                    when.end - when.start});
    rank = when.after_rank;
    position = when.after_position;
  }
  std::reverse(path.begin(), path.end());
  return path;
}

/// The most that each rank keeps at any time, in the unit of `stages`: an entry for each stage, or one for every stage
/// (throws InputError otherwise). It follows from the order alone, as `peak_live` does.
[[nodiscard]] constexpr std::vector<double> peak_memory(const Table& table, std::span<const StageMemory> stages) {
  detail::check_entries(table, stages.size());
  std::vector<double> peaks;
  for (int rank = 0; rank < table.ranks(); ++rank) {
    double now = 0, peak = 0;
    for (const Action& action : table.actions(rank)) {
      const std::size_t stage = static_cast<std::size_t>(table.stage(rank, action.chunk));
      const StageMemory& kept = stages[stages.size() == 1 ? 0 : stage];
      if (computes_forward(action.kind)) now += kept.until_input + kept.until_weight;
      peak = std::max(peak, now);
      if (computes_input_gradient(action.kind) || !table.trains()) now -= kept.until_input;
      if (computes_weight_gradient(action.kind) || !table.trains()) now -= kept.until_weight;
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace kerkis::schedule
