// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include <kerkis/core/partition.hpp>
#include <kerkis/device/launch.hpp>

namespace kerkis::device {

/// A table of vectors of which this rank holds the rows `slice`, and a vector for each position in a sequence.
template <class T>
struct EmbeddingShape {
  std::int64_t rows,           ///< tokens, whole sequences
      width,                   ///< columns of a vector
      context_length;          ///< rows of a sequence
  Range slice;                 ///< of the vocabulary, held here
  const std::int32_t* tokens;  ///< rows
};

namespace detail {

template <class T>
struct EmbeddingForward {
  EmbeddingShape<T> shape;
  const T* table;
  const T* positions;
  T* out;

  KOKKOS_FUNCTION void operator()(std::int64_t row) const {
    const std::int64_t width = shape.width, token = shape.tokens[row];
    T* const o = out + row * width;
    if (!shape.slice.contains(token)) {
      for (std::int64_t i = 0; i < width; ++i) o[i] = T(0);
      return;
    }
    const T* const t = table + (token - shape.slice.begin) * width;
    const T* const p = positions + row % shape.context_length * width;
    for (std::int64_t i = 0; i < width; ++i) o[i] = t[i] + p[i];
  }
};

template <class T>
struct EmbeddingBackward {
  EmbeddingShape<T> shape;
  const T* gradient;
  T* table;
  T* positions;

  KOKKOS_FUNCTION void operator()(std::int64_t block) const {
    const std::int64_t width = shape.width, begin = block * column_block;
    const std::int64_t count = width - begin < column_block ? width - begin : column_block;
    for (std::int64_t row = 0; row < shape.rows; ++row) {
      const T* const g = gradient + row * width + begin;
      const std::int64_t token = shape.tokens[row];
      T* const p = positions + row % shape.context_length * width + begin;
      for (std::int64_t i = 0; i < count; ++i) p[i] += g[i];
      if (!shape.slice.contains(token)) continue;
      T* const t = table + (token - shape.slice.begin) * width + begin;
      for (std::int64_t i = 0; i < count; ++i) t[i] += g[i];
    }
  }
};

}  // namespace detail

/// out = table[token] + positions[row mod context_length] where the token lies in the slice, zeros elsewhere: summed
/// over the ranks, which hold disjoint slices, the whole embedding, exactly.
template <class ExecutionSpace, class T>
void embedding_forward(const ExecutionSpace& execution, const EmbeddingShape<T>& shape, const T* table,
                       const T* positions, T* out) {
  launch("kerkis::embed", execution, shape.rows, detail::EmbeddingForward<T>{shape, table, positions, out});
}

/// Adds to the gradients of the slice and of all positions, row after row: repeated tokens have one order of summation.
template <class ExecutionSpace, class T>
void embedding_backward(const ExecutionSpace& execution, const EmbeddingShape<T>& shape, const T* gradient, T* table,
                        T* positions) {
  launch("kerkis::embed_b", execution, column_blocks(shape.width),
         detail::EmbeddingBackward<T>{shape, gradient, table, positions});
}

}  // namespace kerkis::device
