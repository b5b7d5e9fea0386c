// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

#include <kerkis/schedule/communication.hpp>
#include <kerkis/schedule/detail/array.hpp>
#include <kerkis/schedule/table.hpp>

namespace kerkis::schedule {

/// What a rank needs for one microbatch and all its chunks together, in any unit: a chunk takes its share. All ranks
/// are alike. `communication` delays a message's arrival and occupies nobody.
struct Times {
  double forward = 1;
  double backward_input = 1;
  double backward_weight = 1;
  double communication = 0;

  [[nodiscard]] constexpr double of(ActionKind kind) const noexcept {
    return (kind == ActionKind::forward ? forward : 0.0) + (computes_input_gradient(kind) ? backward_input : 0.0) +
           (computes_weight_gradient(kind) ? backward_weight : 0.0);
  }
};

struct Interval {
  double start = 0;
  double end = 0;
};

struct Timeline {
  std::vector<std::vector<Interval>> actions;  ///< per rank, as in its list
  double span = 0;                             ///< the longest any rank takes from its first start to its last end
  double makespan = 0;     ///< the last end of all: the step's time with a barrier before the optimizer
  double bubble_rate = 0;  ///< the share of the span in which that rank computes nothing
};

/// Plays a table with each rank working its list in order as soon as its inputs are there, with messages as deep as
/// need be: the rules of Qi et al. 2024, arXiv:2401.10241. A table that deadlocks at any depth takes for ever: infinite
/// span and makespan, a bubble rate of 1. Its lists must be valid otherwise (`verify`).
[[nodiscard]] constexpr Timeline simulate(const Table& table, Times times) {
  constexpr double not_yet = std::numeric_limits<double>::infinity();
  const auto index = [](int value) { return static_cast<std::size_t>(value); };
  const Communication communication(table);
  detail::Array<double> arrival(communication.size() + 1);
  for (int message = 0; message < communication.size(); ++message) arrival[message] = not_yet;

  Timeline line;
  line.actions.resize(index(table.ranks()));

  // Works the rank's list until it waits; says whether anything was done.
  const auto advance = [&](int rank) {
    const auto actions = table.actions(rank);
    std::vector<Interval>& done = line.actions[index(rank)];
    const std::size_t before = done.size();
    while (done.size() < actions.size()) {
      const Handoff& handoff = communication.handoff(rank, static_cast<int>(done.size()));
      double start = done.empty() ? 0 : done.back().end;
      if (handoff.input != no_message) start = std::max(start, arrival[handoff.input]);
      if (start == not_yet) break;
      const double end = start + times.of(actions[done.size()].kind) / table.chunks();
      if (handoff.output != no_message) arrival[handoff.output] = end + times.communication;
      done.push_back({start, end});
    }
    return done.size() > before;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (int rank = 0; rank < table.ranks(); ++rank) moved |= advance(rank);
  }

  for (int rank = 0; rank < table.ranks(); ++rank) {
    const std::vector<Interval>& done = line.actions[index(rank)];
    const bool stuck = done.size() < table.actions(rank).size();
    if (stuck) line.span = line.makespan = not_yet;
    if (done.empty()) continue;
    line.span = std::max(line.span, done.back().end - done.front().start);
    line.makespan = std::max(line.makespan, done.back().end);
  }
  const double work = table.microbatches() * (times.forward + times.backward_input + times.backward_weight);
  line.bubble_rate = line.span > 0 ? 1 - work / line.span : 0;
  return line;
}

}  // namespace kerkis::schedule
