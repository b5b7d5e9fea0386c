// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <kerkis/schedule/action.hpp>

namespace kerkis {

/// All forwards, then all backwards: Huang et al. 2019, arXiv:1811.06965. Every rank keeps all microbatches alive.
/// The backwards run in ascending order (the paper's figure has them descending), so that gradients are summed in the
/// same order as under the other schedules.
struct GPipe {
  static constexpr std::string_view name = "gpipe";
  static constexpr int chunks = 1;

  static constexpr void order(PipelineShape shape, int /*rank*/, ActionList& list) {
    for (int m = 0; m < shape.microbatches; ++m) list.forward(m);
    for (int m = 0; m < shape.microbatches; ++m) list.backward(m);
  }
};

}  // namespace kerkis
