// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>
#include <vector>

#include <kerkis/schedule/table.hpp>

namespace kerkis::schedule {

/// Microbatches that a rank keeps, of those whose forward has begun. With several chunks each (microbatch, chunk)
/// counts as one. Inference keeps a microbatch during its forward.
struct Live {
  int until_input = 0;   ///< those whose backward_input has not ended
  int until_weight = 0;  ///< those whose backward_weight has not ended

  friend constexpr bool operator==(const Live&, const Live&) = default;
};

namespace detail {

/// Calls `see(Live)` for each action in turn with what is kept while it runs.
template <class See>
constexpr void follow_live(const Table& table, int rank, std::optional<int> chunk, See&& see) {
  Live now;
  for (const Action& action : table.actions(rank)) {
    const KindTraits& kind = traits(action.kind);
    const bool counts = !chunk || action.chunk == *chunk;
    if (counts && kind.forward) ++now.until_input, ++now.until_weight;
    see(now);
    if (counts && (kind.input_gradient || !table.trains())) --now.until_input;
    if (counts && (kind.weight_gradient || !table.trains())) --now.until_weight;
  }
}

}  // namespace detail

/// What a rank keeps while each action of its list runs, over all its chunks or for one of them. It follows from the
/// order alone, whatever the times are. Input buffers of receives posted early are not counted.
[[nodiscard]] constexpr std::vector<Live> live(const Table& table, int rank, std::optional<int> chunk = std::nullopt) {
  std::vector<Live> kept;
  kept.reserve(table.actions(rank).size());
  detail::follow_live(table, rank, chunk, [&](Live now) { kept.push_back(now); });
  return kept;
}

/// The most of `live`.
[[nodiscard]] constexpr Live peak_live(const Table& table, int rank, std::optional<int> chunk = std::nullopt) {
  Live peak;
  detail::follow_live(table, rank, chunk, [&](Live now) {
    peak.until_input = std::max(peak.until_input, now.until_input);
    peak.until_weight = std::max(peak.until_weight, now.until_weight);
  });
  return peak;
}

/// A count over all chunks of a rank in microbatches of a whole stage, the unit in which schedules with different
/// numbers of chunks compare: a chunk is 1 / chunks of what the rank has.
[[nodiscard]] constexpr double whole_stages(int live, const Table& table) {
  return static_cast<double>(live) / table.chunks();
}

}  // namespace kerkis::schedule
