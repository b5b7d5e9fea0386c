// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

#include <kerkis/schedule/action.hpp>

/// Schedules as a user would write them.
namespace user {

/// One microbatch at a time.
struct OneByOne {
  static constexpr std::string_view name = "one-by-one";

  static constexpr void order(kerkis::PipelineShape shape, int, kerkis::ActionList& list) {
    for (int m = 0; m < shape.microbatches; ++m) {
      list.forward(m);
      list.backward(m);
    }
  }
};

/// The order of 1F1B, with warm-up `depth` forwards per rank below, and backward_weight `delay` microbatches per rank
/// above behind: ZB-H1 is <1, 1>, ZB-H2 is <2, 2> (Qi et al. 2024, arXiv:2401.10241).
template <int depth, int delay>
struct ZeroBubble {
  static constexpr std::string_view name = "zero-bubble";

  static constexpr void order(kerkis::PipelineShape shape, int rank, kerkis::ActionList& list) {
    const int warmup = std::min(shape.microbatches, depth * (shape.ranks - 1 - rank));
    for (int m = 0; m < warmup; ++m) list.forward(m);
    int weights = 0;
    for (int m = 0; m < shape.microbatches; ++m) {
      if (m + warmup < shape.microbatches) list.forward(m + warmup);
      list.backward_input(m);
      if (m + 1 > delay * rank) list.backward_weight(weights++);
    }
    while (weights < shape.microbatches) list.backward_weight(weights++);
  }
};

/// Two chunks per rank, placed as a V: the last rank has two neighbouring stages.
struct GPipeV {
  static constexpr std::string_view name = "gpipe-v";
  static constexpr int chunks = 2;

  static constexpr int stage(kerkis::PipelineShape shape, int rank, int chunk) {
    return chunk == 0 ? rank : 2 * shape.ranks - 1 - rank;
  }

  static constexpr void order(kerkis::PipelineShape shape, int, kerkis::ActionList& list) {
    for (int chunk = 0; chunk < 2; ++chunk) {
      for (int m = 0; m < shape.microbatches; ++m) list.forward(m, chunk);
    }
    for (int chunk = 2; chunk-- > 0;) {
      for (int m = 0; m < shape.microbatches; ++m) list.backward(m, chunk);
    }
  }
};

/// Breadth-first over looped chunks (Lamy-Poirier 2022, arXiv:2211.05953), as many chunks as the shape says.
struct BreadthFirst {
  static constexpr std::string_view name = "breadth-first";

  static constexpr void order(kerkis::PipelineShape shape, int, kerkis::ActionList& list) {
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      for (int m = 0; m < shape.microbatches; ++m) list.forward(m, chunk);
    }
    for (int chunk = shape.chunks; chunk-- > 0;) {
      for (int m = 0; m < shape.microbatches; ++m) list.backward(m, chunk);
    }
  }
};

}  // namespace user
