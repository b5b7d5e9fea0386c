// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include <kerkis/schedule/detail/v_pattern.hpp>

namespace kerkis {

/// V-Min: Qi et al. 2024, "Pipeline Parallelism with Controllable Memory", arXiv:2405.15362. About a third of the
/// memory of 1F1B and two thirds of its bubble if all times are equal: no rank keeps more than (ranks + 4) / 3 (rounded
/// down) whole microbatches alive. Where times differ, it waits for the longest of them at every step.
struct ZeroBubbleVMin : schedule::detail::VPlacement {
  static constexpr std::string_view name = "v-min";

  static constexpr void orders(PipelineShape shape, std::span<ActionList> lists) {
    const int turn = shape.ranks % 3 == 0 ? 3 : 1;  // 1 would have two computations of a rank in one unit
    schedule::detail::order_v(shape, {.down = 1, .up = 1, .forward_turn = turn, .loss_turn = 1, .backward_turn = turn},
                              2 * ((shape.ranks + 4) / 3), lists);
  }
};

}  // namespace kerkis
