// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <optional>

#include <kerkis/schedule/table.hpp>

namespace kerkis::schedule {

/// Microbatches that a rank keeps: those whose forward has begun and whose backward_input (or backward_weight) has not
/// ended. With several chunks each (microbatch, chunk) counts as one.
struct Live {
  int until_input = 0;
  int until_weight = 0;

  friend constexpr bool operator==(const Live&, const Live&) = default;
};

/// The most that a rank keeps at any time, over all its chunks or for one of them. It follows from the order alone,
/// whatever the times are. Input buffers of receives posted early are not counted.
[[nodiscard]] constexpr Live peak_live(const Table& table, int rank, std::optional<int> chunk = std::nullopt) {
  Live now, peak;
  for (const Action& action : table.actions(rank)) {
    if (chunk && action.chunk != *chunk) continue;
    if (action.kind == ActionKind::forward) {
      peak.until_input = std::max(peak.until_input, ++now.until_input);
      peak.until_weight = std::max(peak.until_weight, ++now.until_weight);
    }
    if (computes_input_gradient(action.kind)) --now.until_input;
    if (computes_weight_gradient(action.kind)) --now.until_weight;
  }
  return peak;
}

}  // namespace kerkis::schedule
