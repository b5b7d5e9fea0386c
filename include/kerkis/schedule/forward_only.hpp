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
  static constexpr bool trains = false;  ///< has no backward

  static constexpr void order(PipelineShape shape, int /*rank*/, ActionList& list) {
    in_groups(shape, shape.ranks, list);
  }

  /// In groups of so many.
  static constexpr void in_groups(PipelineShape shape, int group, ActionList& list) {
    for (int first = 0; first < shape.microbatches; first += group) {
      const int end = std::min(first + group, shape.microbatches);
      for (int chunk = 0; chunk < shape.chunks; ++chunk) {
        for (int m = first; m < end; ++m) list.forward(m, chunk);
      }
    }
  }
};

namespace schedule {

/// ForwardOnly with the stages where another table has them: the same model, evaluated.
///
/// feedback: the last stage's result for a microbatch is the first stage's input for the one that comes so many after
/// it (`Table::feedback`). So n sequences that are generated together, k tokens each, are n * k microbatches with a
/// feedback of n: microbatch i is token i / n of sequence i % n, and from n = stages on no rank waits for a token.
[[nodiscard]] constexpr Table forward_only(const Table& placement, int microbatches, int feedback = 0) {
  const PipelineShape shape{placement.ranks(), microbatches, placement.chunks()};
  // What a group is fed, the groups before it have made.
  const int group = feedback > 0 ? std::min(shape.ranks, feedback) : shape.ranks;
  std::vector<ActionList> lists(static_cast<std::size_t>(shape.ranks));
  std::vector<int> stages;
  for (int rank = 0; rank < shape.ranks; ++rank) {
    ForwardOnly::in_groups(shape, group, lists[static_cast<std::size_t>(rank)]);
    for (int chunk = 0; chunk < shape.chunks; ++chunk) stages.push_back(placement.stage(rank, chunk));
  }
  return Table(shape, std::move(lists), std::move(stages), Purpose::inference, feedback);
}

}  // namespace schedule
}  // namespace kerkis
