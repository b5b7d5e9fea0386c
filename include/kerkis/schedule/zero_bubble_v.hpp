// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

#include <kerkis/schedule/detail/in_turn.hpp>
#include <kerkis/schedule/detail/v_placement.hpp>

namespace kerkis {

/// ZB-V: Qi et al. 2024, "Zero Bubble Pipeline Parallelism", arXiv:2401.10241, section 6 (V-ZB in arXiv:2405.15362). No
/// bubble in any rank's span if all times are equal and microbatches >= 2 ranks - 1, with the memory of 1F1B's first
/// rank on all: 2 ranks chunks of a microbatch, which is `ranks` whole microbatches. With fewer microbatches the order
/// is the same, and those that are absent are left out.
struct ZeroBubbleV : schedule::detail::VPlacement {
  static constexpr std::string_view name = "zb-v";

  static constexpr void order(PipelineShape shape, int rank, ActionList& list) {
    const int microbatches = std::max(shape.microbatches, 2 * shape.ranks - 1);
    const int below = shape.ranks - rank;  // ranks from here to the turn of the V
    schedule::detail::InTurn next(list, shape.microbatches);
    const auto backward = [&](int chunk) {
      next.backward_input(chunk);
      next.backward_weight(chunk);
    };

    // Until the first microbatch is back from the turn; until its gradient comes; until that has been round the turn.
    for (int k = 0; k < 2 * below - 1; ++k) next.forward(0);
    for (int k = 0; k < rank; ++k) next.forward(1), next.forward(0);
    for (int k = 0; k < below; ++k) next.forward(1), backward(1);
    // Six computations of equal length, which no rank has to wait for.
    while (next.forwards(1) < microbatches) {
      if (next.forwards(0) < microbatches) next.forward(0);
      backward(0);
      next.forward(1);
      backward(1);
    }
    // The gradients hurry on; what they leave behind fills the time until the next comes.
    for (int k = 0; k < rank; ++k) next.backward_input(0), next.backward_input(1);
    for (int k = 0; k < below; ++k) backward(0);
    while (next.weights(0) < microbatches || next.weights(1) < microbatches) {
      if (next.weights(1) < microbatches) next.backward_weight(1);
      if (next.weights(0) < microbatches) next.backward_weight(0);
    }
  }
};

}  // namespace kerkis
