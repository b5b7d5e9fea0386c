// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include <kerkis/schedule/action.hpp>
#include <kerkis/schedule/table.hpp>

namespace kerkis {

/// Forward passes alone, for validation and inference: groups of as many microbatches as there are ranks pass chunk by
/// chunk. A rank keeps nothing of a microbatch after its forward. As many chunks as the shape says, looped.
struct ForwardOnly {
  static constexpr std::string_view name = "forward-only";
  static constexpr bool trains = false;

  static constexpr void order(PipelineShape shape, int /*rank*/, ActionList& list) {
    for (int first = 0; first < shape.microbatches; first += shape.ranks) {
      const int end = std::min(first + shape.ranks, shape.microbatches);
      for (int chunk = 0; chunk < shape.chunks; ++chunk) {
        for (int m = first; m < end; ++m) list.forward(m, chunk);
      }
    }
  }
};

namespace schedule {

/// ForwardOnly with the stages where a training table has them: the same model, evaluated.
[[nodiscard]] constexpr Table forward_only(const Table& training, int microbatches) {
  const PipelineShape shape{training.ranks(), microbatches, training.chunks()};
  std::vector<ActionList> lists(static_cast<std::size_t>(shape.ranks));
  std::vector<int> stages;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    ForwardOnly::order(shape, rank, lists[static_cast<std::size_t>(rank)]);
    for (int chunk = 0; chunk < shape.chunks; ++chunk) stages.push_back(training.stage(rank, chunk));
  }
  return Table(shape, std::move(lists), std::move(stages), Purpose::inference);
}

}  // namespace schedule
}  // namespace kerkis
