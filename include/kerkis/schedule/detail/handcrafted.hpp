// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include <kerkis/schedule/action.hpp>

namespace kerkis::schedule::detail {

/// The order of 1F1B after `warmup` forwards, with backward_weight `delay` microbatches behind backward_input: the
/// handcrafted schedules of Qi et al. 2024, arXiv:2401.10241.
constexpr void order_handcrafted(PipelineShape shape, int warmup, int delay, ActionList& list) {
  warmup = std::min(shape.microbatches, warmup);
  for (int m = 0; m < warmup; ++m) list.forward(m);
  for (int m = 0; m < shape.microbatches; ++m) {
    if (m + warmup < shape.microbatches) list.forward(m + warmup);
    list.backward_input(m);
    if (m >= delay) list.backward_weight(m - delay);
  }
  for (int m = std::max(0, shape.microbatches - delay); m < shape.microbatches; ++m) list.backward_weight(m);
}

}  // namespace kerkis::schedule::detail
