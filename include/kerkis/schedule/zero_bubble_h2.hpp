// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <kerkis/schedule/detail/handcrafted.hpp>

namespace kerkis {

/// ZB-H2: Qi et al. 2024, "Zero Bubble Pipeline Parallelism", arXiv:2401.10241, section 2.2. Twice the warm-up of 1F1B
/// and backward_weight twice as late as in ZB-H1: no bubble in any rank's span if all times are equal and microbatches
/// >= 2 ranks - 1. Rank r (from 0) then keeps 2 (ranks - r) - 1 microbatches alive until backward_input, 2 ranks - 1
/// until backward_weight.
struct ZeroBubbleH2 {
  static constexpr std::string_view name = "zb-h2";
  static constexpr int chunks = 1;

  static constexpr void order(PipelineShape shape, int rank, ActionList& list) {
    schedule::detail::order_handcrafted(shape, 2 * (shape.ranks - 1 - rank), 2 * rank, list);
  }
};

}  // namespace kerkis
