// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kerkis/schedule/action.hpp>

namespace kerkis::schedule::detail {

/// Two chunks per rank, and the stages run down the ranks and up again: rank 0 has the first and the last, so that a
/// microbatch's loss comes back to where it began, and early and late stages share each rank's memory evenly.
struct VPlacement {
  static constexpr int chunks = 2;

  static constexpr int stage(PipelineShape shape, int rank, int chunk) noexcept {
    return chunk == 0 ? rank : 2 * shape.ranks - 1 - rank;
  }
};

}  // namespace kerkis::schedule::detail
