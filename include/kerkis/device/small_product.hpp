// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

namespace kerkis::device {

/// An operand: element (i, j) is data[i * row + j * column]. Exchanging the strides transposes it.
template <class T>
struct Strided {
  T* data;           ///< of element (0, 0)
  std::int64_t row,  ///< elements from one row to the next
      column;        ///< elements from one column to the next
};

/// Products up to so many multiplications are left to `small_product`: there, entering a BLAS and packing for it cost
/// as much as the product itself, also where several threads share it. Without FMA instructions at compile time a BLAS,
/// which picks its kernels at run time, wins early.
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
inline constexpr std::int64_t small_multiplications = std::int64_t{1} << 18;
#else
inline constexpr std::int64_t small_multiplications = std::int64_t{1} << 12;
#endif

/// Whether `small_product` is the faster way.
constexpr bool is_small_product(std::int64_t rows, std::int64_t columns, std::int64_t depth) {
  constexpr std::int64_t limit = small_multiplications;
  return rows <= limit && columns <= limit && depth <= limit && rows * columns <= limit &&
         rows * columns * depth <= limit;
}

namespace detail {

/// A block of A stays in the second cache, a strip of B in the first.
inline constexpr std::int64_t block_depth = 256, block_rows = 128;

#if defined(__CUDACC__) || defined(__HIPCC__)
template <class T>
inline constexpr int pack_size = 1;
template <class T>
struct Pack {
  using type = T;
  using anywhere = T;
};
#else
/// 32 bytes of T: the vectors of GCC and Clang, lowered to what the target has. Plain arrays of accumulators are not
/// kept in registers by GCC 14 (a quarter of the speed).
template <class T>
inline constexpr int pack_size = 32 / static_cast<int>(sizeof(T));
template <class T>
struct Pack {
  typedef T type __attribute__((vector_size(32), may_alias));
  typedef T anywhere __attribute__((vector_size(32), aligned(alignof(T)), may_alias));
};
#endif

/// sum += factor b. Explicit where it is one instruction: left to themselves, compilers fuse in some loops and not in
/// others, and the bits of an element would depend on its place. (References: without AVX there is no agreed way to
/// pass such vectors.)
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void multiply_add(T factor, const typename Pack<T>::type& b, typename Pack<T>::type& sum) {
#if defined(__FMA__) && !defined(__CUDACC__) && !defined(__HIPCC__)
  // Builtins, since <immintrin.h> takes long to compile.
  const typename Pack<T>::type factors = factor - typename Pack<T>::type{};
#if __has_builtin(__builtin_elementwise_fma)
  sum = __builtin_elementwise_fma(factors, b, sum);
#else
  if constexpr (sizeof(T) == 4)
    sum = __builtin_ia32_vfmaddps256(factors, b, sum);
  else
    sum = __builtin_ia32_vfmaddpd256(factors, b, sum);
#endif
#else
  sum += factor * b;
#endif
}

/// Columns of B become rows of the packed strip: out[k * row_length + j] = in[j * in_row + k] for one pack of j,
/// `depth` values of k.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void transpose_pack(std::int64_t depth, const T* in, std::int64_t in_row, T* out,
                                                std::int64_t row_length) {
  constexpr int n = pack_size<T>;
  std::int64_t k = 0;
#if !defined(__CUDACC__) && !defined(__HIPCC__)
  using Anywhere = typename Pack<T>::anywhere;
  for (; k + n <= depth; k += n) {
    typename Pack<T>::type row[n], next[n];
    for (int j = 0; j < n; ++j) row[j] = *reinterpret_cast<const Anywhere*>(in + j * in_row + k);
    // log2(n) perfect shuffles of pairs of rows half a block apart.
    for (int round = 1; round < n; round *= 2) {
      for (int j = 0; j < n / 2; ++j) {
        if constexpr (n == 8) {
          next[2 * j] = __builtin_shufflevector(row[j], row[j + 4], 0, 8, 1, 9, 2, 10, 3, 11);
          next[2 * j + 1] = __builtin_shufflevector(row[j], row[j + 4], 4, 12, 5, 13, 6, 14, 7, 15);
        } else {
          next[2 * j] = __builtin_shufflevector(row[j], row[j + 2], 0, 4, 1, 5);
          next[2 * j + 1] = __builtin_shufflevector(row[j], row[j + 2], 2, 6, 3, 7);
        }
      }
      for (int j = 0; j < n; ++j) row[j] = next[j];
    }
    for (int j = 0; j < n; ++j) *reinterpret_cast<Anywhere*>(out + (k + j) * row_length) = row[j];
  }
#endif
  for (; k < depth; ++k)
    for (int j = 0; j < n; ++j) out[k * row_length + j] = in[j * in_row + k];
}

/// `height` rows of C: A times a packed strip of B, `packs` wide. Constant extents, so that the sums stay in registers.
/// Rows from `rows` on are computed, as copies of the last, but not stored.
template <int height, int packs, class T>
KOKKOS_FORCEINLINE_FUNCTION void product_tile(int rows, std::int64_t depth, const T* a, std::int64_t a_row,
                                              std::int64_t a_column, const typename Pack<T>::type* b, T* c,
                                              std::int64_t c_row, int width, bool add) {
  using V = typename Pack<T>::type;
  const T* start[height];
  V sum[height][packs];
  for (int i = 0; i < height; ++i) {
    start[i] = a + (i < rows ? i : rows - 1) * a_row;
    for (int j = 0; j < packs; ++j) sum[i][j] = V{};
  }
  for (std::int64_t k = 0; k < depth; ++k)
    for (int i = 0; i < height; ++i) {
      const T factor = start[i][k * a_column];
      for (int j = 0; j < packs; ++j) multiply_add<T>(factor, b[k * packs + j], sum[i][j]);
    }
  if (width == packs * pack_size<T>) {
    for (int i = 0; i < height; ++i) {
      if (i == rows) return;
      for (int j = 0; j < packs; ++j) {
        auto& out = *reinterpret_cast<typename Pack<T>::anywhere*>(c + i * c_row + j * pack_size<T>);
        out = add ? out + sum[i][j] : sum[i][j];
      }
    }
    return;
  }
  for (int i = 0; i < height; ++i) {
    if (i == rows) return;
    const T* const row = reinterpret_cast<const T*>(sum[i]);
    T* const out = c + i * c_row;
    for (int j = 0; j < width; ++j) out[j] = add ? out[j] + row[j] : row[j];
  }
}

/// A strip of at most `packs` packs of columns: packs B, zeros beyond `width`, then goes down the rows.
template <int packs, class T>
KOKKOS_FORCEINLINE_FUNCTION void product_strip(std::int64_t rows, std::int64_t depth, Strided<const T> a, const T* b,
                                               std::int64_t b_row, std::int64_t b_column, T* c, std::int64_t c_row,
                                               int width, bool add) {
  constexpr int full = packs * pack_size<T>;
  alignas(32) T scalars[block_depth * full];
  const auto* const packed = reinterpret_cast<const typename Pack<T>::type*>(scalars);
  if (width < full)
    for (std::int64_t i = 0; i < depth * full; ++i) scalars[i] = T(0);
  if (width == full && b_column == 1)
    for (std::int64_t k = 0; k < depth; ++k)
      for (int j = 0; j < full; ++j) scalars[k * full + j] = b[k * b_row + j];
  else if (width == full && b_row == 1)
    for (int j = 0; j < packs; ++j)
      transpose_pack<T>(depth, b + j * pack_size<T> * b_column, b_column, scalars + j * pack_size<T>, full);
  else
    for (std::int64_t k = 0; k < depth; ++k)
      for (int j = 0; j < width; ++j) scalars[k * full + j] = b[k * b_row + j * b_column];
  constexpr int height = packs == 1 ? 8 : 4;
  for (std::int64_t i = 0; i < rows; i += height)
    product_tile<height, packs>(static_cast<int>(rows - i < height ? rows - i : height), depth, a.data + i * a.row,
                                a.row, a.column, packed, c + i * c_row, c_row, width, add);
}

template <class T>
KOKKOS_FORCEINLINE_FUNCTION void product_block(std::int64_t rows, std::int64_t columns, std::int64_t depth,
                                               Strided<const T> a, Strided<const T> b, T* c, std::int64_t c_row,
                                               bool add) {
  constexpr int pack = pack_size<T>;
  std::int64_t j = 0;
  for (; j + pack < columns; j += 2 * pack)
    product_strip<2>(rows, depth, a, b.data + j * b.column, b.row, b.column, c + j, c_row,
                     static_cast<int>(columns - j < 2 * pack ? columns - j : 2 * pack), add);
  if (j < columns)
    product_strip<1>(rows, depth, a, b.data + j * b.column, b.row, b.column, c + j, c_row,
                     static_cast<int>(columns - j), add);
}

/// The same for a transposed A, which would be read in pieces of a few elements from as many cache lines as it is deep.
template <class T>
KOKKOS_FUNCTION void product_block_transposed(std::int64_t rows, std::int64_t columns, std::int64_t depth,
                                              Strided<const T> a, Strided<const T> b, T* c, std::int64_t c_row,
                                              bool add) {
  constexpr int pack = pack_size<T>;
  alignas(32) T turned[block_rows * block_depth];
  std::int64_t k = 0;
  for (; k + pack <= depth; k += pack) transpose_pack<T>(rows, a.data + k * a.column, a.column, turned + k, depth);
  for (; k < depth; ++k)
    for (std::int64_t i = 0; i < rows; ++i) turned[i * depth + k] = a.data[i + k * a.column];
  product_block<T>(rows, columns, depth, {turned, depth, 1}, b, c, c_row, add);
}

}  // namespace detail

/// C (rows × columns, unit column stride) = A (rows × depth) B (depth × columns), plus C if `add`. Sequential, for use
/// inside kernels and for matrices that are too small for a BLAS. The bits of an element of C do not depend on its
/// place.
template <class T>
KOKKOS_FUNCTION void small_product(std::int64_t rows, std::int64_t columns, std::int64_t depth, Strided<const T> a,
                                   Strided<const T> b, T* c, std::int64_t c_row, bool add) {
  using namespace detail;
  if (depth == 0 && !add)
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) c[i * c_row + j] = T(0);
  for (std::int64_t k = 0; k < depth; k += block_depth)
    for (std::int64_t i = 0; i < rows; i += block_rows) {
      const std::int64_t here = rows - i < block_rows ? rows - i : block_rows,
                         deep = depth - k < block_depth ? depth - k : block_depth;
      const Strided<const T> left{a.data + i * a.row + k * a.column, a.row, a.column},
          right{b.data + k * b.row, b.row, b.column};
      const bool more = add || k > 0;
      if (a.row == 1 && a.column > 1 && deep > 32)
        product_block_transposed<T>(here, columns, deep, left, right, c + i * c_row, c_row, more);
      else
        product_block<T>(here, columns, deep, left, right, c + i * c_row, c_row, more);
    }
}

}  // namespace kerkis::device
