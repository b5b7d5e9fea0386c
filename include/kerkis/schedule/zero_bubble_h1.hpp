// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <kerkis/schedule/detail/handcrafted.hpp>

namespace kerkis {

/// ZB-H1: Qi et al. 2024, "Zero Bubble Pipeline Parallelism", arXiv:2401.10241, section 2.1. The order of 1F1B with
/// each backward_weight put off until it fills what was bubble: rank r (from 0) is r microbatches behind with it. Keeps
/// min(microbatches, ranks - r) microbatches alive until backward_input, `ranks` until backward_weight.
struct ZeroBubbleH1 {
  static constexpr std::string_view name = "zb-h1";
  static constexpr int chunks = 1;

  static constexpr void order(PipelineShape shape, int rank, ActionList& list) {
    schedule::detail::order_handcrafted(shape, shape.ranks - 1 - rank, rank, list);
  }
};

}  // namespace kerkis
