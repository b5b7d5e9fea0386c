// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <kerkis/core/error.hpp>
#include <kerkis/schedule/detail/handcrafted.hpp>
#include <kerkis/schedule/detail/list_scheduler.hpp>
#include <kerkis/schedule/simulator.hpp>
#include <kerkis/schedule/table.hpp>
#include <kerkis/schedule/verifier.hpp>
#include <kerkis/schedule/zero_bubble_h1.hpp>
#include <kerkis/schedule/zero_bubble_h2.hpp>

namespace kerkis {

/// A zero-bubble schedule made for given times under a limit of memory, at run time (after section 3.1 of Qi et al.
/// 2024, arXiv:2401.10241): the lists of all ranks are built in the order of time by many policies under every smaller
/// limit too, and the shortest is taken; 1F1B, ZB-H1 and ZB-H2 take part where they keep the limit. One chunk per rank.
/// The same input gives the same table everywhere; a larger limit never makes it longer.
struct Automatic {
  static constexpr std::string_view name = "automatic";

  /// The most ranks times microbatches. Up to 4,096 a search takes a second or less, at the most some minutes.
  static constexpr int largest = 1 << 18;

  /// Of one microbatch on each rank, or one entry for all.
  std::vector<schedule::Times> times = {{}};

  /// The most microbatches that a rank keeps: one counts 1 from its forward until the end of its backward_input, and
  /// `weight_share` from then until the end of its backward_weight. 2 * ranks unless given; a fraction is not used.
  ///
  /// What backward_weight still needs must weigh less than a whole microbatch if the bubble is to vanish. The last rank
  /// starts (p-1)(F+C) after the first and must end its last backward_input (p-1)(B+C)+W before it, so that it delays
  /// at least 1+(p-1)(F+B+2C)/W backward_weights if the first rank never idles: more than 2p for the usual times.
  std::optional<double> memory_limit = std::nullopt;
  double weight_share = 0.5;  ///< see memory_limit; from 0 to 1

  /// Whether the makespan is to be short (a step with a barrier before the optimizer) instead of the span.
  bool barrier = false;

  /// A table that `verify` accepts. Throws InputError for an extent below 1, several chunks, times that make no sense,
  /// a limit below 1, or a share that is not from 0 to 1.
  [[nodiscard]] schedule::Table table(PipelineShape shape) const;
};

namespace schedule::detail {

/// 1F1B with its backward in two halves, so that the gradient leaves before the weights' are computed.
struct SplitOneForwardOneBackward {
  static constexpr std::string_view name = "split-1f1b";

  static constexpr void order(PipelineShape shape, int rank, ActionList& list) {
    order_handcrafted(shape, shape.ranks - 1 - rank, 0, list);
  }
};

}  // namespace schedule::detail

inline schedule::Table Automatic::table(PipelineShape shape) const {
  using namespace schedule;
  require(shape.ranks >= 1 && shape.microbatches >= 1, "automatic: ", shape.ranks, " ranks and ", shape.microbatches,
          " microbatches: at least 1 of each is needed");
  require(shape.microbatches <= largest / shape.ranks, "automatic: ", shape.ranks, " ranks and ", shape.microbatches,
          " microbatches: their product is above ", largest);
  require(shape.chunks == 1, "automatic: ", shape.chunks, " chunks per rank; it places one");
  require(times.size() == 1 || times.size() == static_cast<std::size_t>(shape.ranks), "automatic: times of ",
          times.size(), " ranks for ", shape.ranks, ": give one entry for all, or one for each");
  for (const Times& rank : times) schedule::detail::check_times(rank);
  const double limit = memory_limit.value_or(2.0 * shape.ranks);
  require(limit >= 1, "automatic: a memory limit of ", limit, " microbatches; a rank can't work with less than 1");
  require(weight_share >= 0 && weight_share <= 1, "automatic: a weight share of ", weight_share,
          "; it must be from 0 to 1");

  // Nothing is shorter than the work of the busiest rank, and no more memory than all microbatches can be used.
  double least = 0;
  for (const Times& rank : times) {
    least = std::max(least, shape.microbatches * (rank.forward + rank.backward_input + rank.backward_weight));
  }
  const int most = static_cast<int>(std::min(limit, static_cast<double>(shape.microbatches)));

  constexpr double rounding = 1e-12;
  std::optional<Table> best;
  double shortest = std::numeric_limits<double>::infinity();
  const auto consider = [&](Table table) {
    const StageMemory kept{1 - weight_share, weight_share};
    const std::vector<double> peaks = peak_memory(table, {&kept, 1});
    if (*std::max_element(peaks.begin(), peaks.end()) > most + 1e-9) return;
    const Timeline line = simulate(table, times);
    const double length = barrier ? line.makespan : line.span;
    if (length >= shortest) return;
    shortest = length;
    best = std::move(table);
  };
  consider(make_table<schedule::detail::SplitOneForwardOneBackward>(shape));
  consider(make_table<ZeroBubbleH1>(shape));
  consider(make_table<ZeroBubbleH2>(shape));

  // What is tried depends on the shape alone, so that no smaller limit has anything to offer that a larger one has not.
  const bool fine = shape.ranks * shape.microbatches <= 4096;
  const int step = fine ? 1 : std::max(1, shape.microbatches / 32);
  const auto level = [&](int limit_) { return limit_ <= step ? limit_ : limit_ / step * step; };

  // Large limits come first, since a short table bounds the search for others early; of tables that are equally long
  // the one under the least limit is taken.
  schedule::detail::ListScheduler scheduler(shape, times, weight_share, barrier);
  std::vector<schedule::detail::Policy> policies = schedule::detail::policies(fine);
  for (int memory = level(most); memory >= 1; memory = level(memory - 1)) {
    double bound = shortest * (1 + rounding);
    for (schedule::detail::Policy& policy : policies) {
      policy.memory = memory;
      const double length = scheduler.run(policy, bound);
      if (length > bound) continue;
      shortest = std::min(shortest, length);
      best = Table(shape, scheduler.lists());
      if (shortest <= least * (1 + rounding)) break;
      bound = shortest * (1 - rounding);
    }
  }
  const Report report = verify(*best, unbounded);
  if (!report.ok()) throw Error("automatic: the table that was built is wrong: " + explain(report));
  return *std::move(best);
}

}  // namespace kerkis
