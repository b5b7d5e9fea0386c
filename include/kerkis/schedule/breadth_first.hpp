// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include <kerkis/schedule/action.hpp>

namespace kerkis {

/// Breadth-first over looped chunks: Lamy-Poirier 2022, arXiv:2211.05953. All microbatches pass a chunk before the next
/// one begins, so that its parameters are needed (gathered, if they are sharded) once per direction. The bubble of
/// Interleaved for microbatches >= ranks; keeps all microbatches alive, and needs receives posted or sends buffered in
/// proportion to microbatches / ranks. `per_rank`: chunks; left open, the shape's.
template <int per_rank = schedule::chunks_of_shape>
struct BreadthFirst {
  static_assert(per_rank >= 0, "kerkis: BreadthFirst needs at least one chunk per rank");
  static constexpr std::string_view name = "bfs";
  static constexpr int chunks = per_rank;

  static constexpr void order(PipelineShape shape, int /*rank*/, ActionList& list) {
    for (int chunk = 0; chunk < shape.chunks; ++chunk) {
      for (int m = 0; m < shape.microbatches; ++m) list.forward(m, chunk);
    }
    for (int chunk = shape.chunks; chunk-- > 0;) {
      for (int m = 0; m < shape.microbatches; ++m) list.backward(m, chunk);
    }
  }
};

}  // namespace kerkis
