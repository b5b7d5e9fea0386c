// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include <kerkis/schedule/detail/v_pattern.hpp>

namespace kerkis {

/// V-Half: Qi et al. 2024, "Pipeline Parallelism with Controllable Memory", arXiv:2405.15362. About half of the memory
/// of 1F1B and half of its bubble: no rank keeps more than (ranks + 2) / 2 (rounded down) whole microbatches alive.
struct ZeroBubbleVHalf : schedule::detail::VPlacement {
  static constexpr std::string_view name = "v-half";

  static constexpr void orders(PipelineShape shape, std::span<ActionList> lists) {
    const bool even = shape.ranks % 2 == 0;
    schedule::detail::order_v(
        shape, {.down = 2, .up = 1, .forward_turn = even ? 4 : 1, .loss_turn = 1, .backward_turn = even ? 5 : 2},
        2 * ((shape.ranks + 2) / 2), lists);
  }
};

}  // namespace kerkis
