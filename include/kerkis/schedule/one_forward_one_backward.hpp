// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

#include <kerkis/schedule/action.hpp>

namespace kerkis {

/// One forward, one backward (PipeDream-flush): Narayanan et al. 2021, arXiv:2104.04473, section 2.2.
/// Rank r (from 0) keeps at most min(microbatches, ranks - r) microbatches alive.
struct OneForwardOneBackward {
  static constexpr std::string_view name = "1f1b";
  static constexpr int chunks = 1;

  static constexpr void order(PipelineShape shape, int rank, ActionList& list) {
    const int warmup = std::min(shape.microbatches, shape.ranks - 1 - rank);
    for (int m = 0; m < warmup; ++m) list.forward(m);
    for (int m = warmup; m < shape.microbatches; ++m) {
      list.forward(m);
      list.backward(m - warmup);
    }
    for (int m = shape.microbatches - warmup; m < shape.microbatches; ++m) list.backward(m);
  }
};

}  // namespace kerkis
