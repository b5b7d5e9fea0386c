// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include <kerkis/schedule/communication.hpp>
#include <kerkis/schedule/detail/lists.hpp>
#include <kerkis/schedule/detail/trial.hpp>
#include <kerkis/schedule/report.hpp>
#include <kerkis/schedule/table.hpp>

namespace kerkis::schedule {

/// Proves a table complete (every stage computes every microbatch's forward, backward_input and backward_weight exactly
/// once), ordered, and free from deadlock when a send completes only once its receive is posted (as MPI_Ssend).
///
/// Each rank takes its actions in turn: it waits for the input, computes, posts the send of the output. Per peer and
/// direction (a Channel),
///  - `depth.receives` receives are posted ahead, in the order in which the rank consumes them: as soon as one is
///    consumed, the next is posted. With 0 a receive is posted only by the action that needs it;
///  - after it posted a send, the rank goes on once all but the last `depth.sends` sends have completed. With 0 it
///    waits for that send itself.
///
/// Never throws on nonsense: the report says what is wrong and where.
[[nodiscard]] constexpr Report verify(const Table& table, Depth depth) {
  Report report = detail::check_lists(table);
  report.depth = depth;
  if (!report.ok()) return report;
  const Communication communication(table);
  detail::Trial trial(table, communication, depth);
  if (trial.run()) return report;
  report.fault = Fault::deadlock;
  report.cycle = trial.cycle();
  report.rank = report.cycle.front().rank;
  report.action = report.cycle.front().action;
  return report;
}

/// The least receives + sends with which the table passes, of these the least sends; none if there is no such depth.
/// More depth never hurts, so the sum is found by bisection.
[[nodiscard]] constexpr std::optional<Depth> least_depth(const Table& table) {
  if (!verify(table, unbounded).ok()) return std::nullopt;
  const Communication communication(table);
  const auto of_sum = [&](int sum) -> std::optional<Depth> {
    for (int sends = 0; sends <= sum; ++sends) {
      const Depth depth{sum - sends, sends};
      if (detail::Trial(table, communication, depth).run()) return depth;
    }
    return std::nullopt;
  };
  int enough = 0, short_of_it = -1;
  std::optional<Depth> least = of_sum(enough);
  for (; !least; least = of_sum(enough)) {
    short_of_it = enough;
    enough = 2 * enough + 1;
  }
  while (enough - short_of_it > 1) {
    const int middle = short_of_it + (enough - short_of_it) / 2;
    if (const std::optional<Depth> found = of_sum(middle)) {
      least = found;
      enough = middle;
    } else {
      short_of_it = middle;
    }
  }
  return least;
}

/// The proof at the least depth, which stands in the report; or why no depth helps.
[[nodiscard]] constexpr Report verify(const Table& table) {
  return verify(table, least_depth(table).value_or(unbounded));
}

}  // namespace kerkis::schedule
