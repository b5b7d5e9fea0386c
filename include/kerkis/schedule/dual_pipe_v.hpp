// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

#include <kerkis/schedule/detail/in_turn.hpp>
#include <kerkis/schedule/detail/v_placement.hpp>

namespace kerkis {

/// DualPipeV: DualPipe of DeepSeek-AI 2024, "DeepSeek-V3 Technical Report", arXiv:2412.19437, section 3.2.1, folded to
/// a V as Qi et al. propose ("cut in half"). Between warm-up and end each rank alternates the forward of one microbatch
/// and the backward of another, of different chunks: the two stand side by side in the list, so that the messages of
/// either pass while the other computes. Keeps up to 2 ranks + 1 chunks of a microbatch alive. With fewer than 2 ranks
/// microbatches the order is that for 2 ranks, and those that are absent are left out. The end differs from the
/// report's figure: there all backwards are split, which leaves less bubble in the same memory.
struct DualPipeV : schedule::detail::VPlacement {
  static constexpr std::string_view name = "dualpipe-v";

  static constexpr void order(PipelineShape shape, int rank, ActionList& list) {
    const int microbatches = std::max(shape.microbatches, 2 * shape.ranks);
    const int below = shape.ranks - 1 - rank;
    schedule::detail::InTurn next(list, shape.microbatches);

    for (int k = 0; k < 2 * below; ++k) next.forward(0);
    for (int k = 0; k <= rank; ++k) next.forward(0), next.forward(1);
    for (int k = 0; k < below; ++k) next.backward_input(1), next.backward_weight(1), next.forward(1);
    while (next.forwards(0) < microbatches) {
      next.forward(0), next.backward(1);
      next.forward(1), next.backward(0);
    }
    for (int k = 0; k < below; ++k) {
      next.backward(1);
      next.forward(1), next.backward(0);
    }
    // The gradients hurry on; what they leave behind fills the time until the next comes.
    for (int k = 0; k <= rank; ++k) next.backward_input(1), next.backward_input(0);
    for (int k = 0; k < below; ++k) {
      next.backward_weight(next.weights(1) < microbatches ? 1 : 0);
      next.backward_input(0);
    }
    while (next.weights(1) < microbatches) next.backward_weight(1);
    while (next.weights(0) < microbatches) next.backward_weight(0);
  }
};

}  // namespace kerkis
