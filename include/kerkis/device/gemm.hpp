// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cblas.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <kerkis/core/error.hpp>
#include <kerkis/device/device_blas.hpp>
#include <kerkis/device/launch.hpp>
#include <kerkis/device/small_product.hpp>

namespace kerkis::device {

/// Whether a product takes an operand as it lies or transposed.
enum class Transpose : bool {
  no,  ///< as it lies
  yes  ///< transposed
};

namespace detail {

/// As a BLAS takes extents and strides.
inline int narrow(std::int64_t extent) {
  require(extent <= std::numeric_limits<int>::max(), "a matrix product takes extents and strides up to 2^31 - 1, not ",
          extent);
  return static_cast<int>(extent);
}

/// CBLAS on the calling thread's behalf; inside a parallel region OpenBLAS stays on that thread.
template <class T>
void blas_product(Transpose transpose_a, Transpose transpose_b, std::int64_t rows, std::int64_t columns,
                  std::int64_t depth, T alpha, const T* a, std::int64_t a_stride, const T* b, std::int64_t b_stride,
                  T beta, T* c, std::int64_t c_stride) {
  const auto call = [&](auto* function) {
    function(CblasRowMajor, transpose_a == Transpose::yes ? CblasTrans : CblasNoTrans,
             transpose_b == Transpose::yes ? CblasTrans : CblasNoTrans, narrow(rows), narrow(columns), narrow(depth),
             alpha, a, narrow(a_stride), b, narrow(b_stride), beta, c, narrow(c_stride));
  };
  if constexpr (std::is_same_v<T, float>)
    call(&cblas_sgemm);
  else
    call(&cblas_dgemm);
}

/// Element (i, j) of A B.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T product_element(std::int64_t depth, Strided<const T> a, Strided<const T> b,
                                              std::int64_t i, std::int64_t j) {
  T sum(0);
  for (std::int64_t k = 0; k < depth; ++k) sum += a.data[i * a.row + k * a.column] * b.data[k * b.row + j * b.column];
  return sum;
}

/// One element of C a call.
template <class T>
struct ProductElement {
  std::int64_t columns, depth;
  T alpha;
  Strided<const T> a, b;
  T beta;
  T* c;
  std::int64_t c_row;

  KOKKOS_FUNCTION void operator()(std::int64_t index) const {
    const std::int64_t i = index / columns, j = index % columns;
    const T sum = product_element(depth, a, b, i, j);
    T& out = c[i * c_row + j];
    out = beta == T(0) ? alpha * sum : alpha * sum + beta * out;
  }
};

}  // namespace detail

/// C = alpha op(A) op(B) + beta C on row-major operands: op(A) is rows × depth, op(B) depth × columns; strides are the
/// distances of rows. C is not read if beta is 0. Zero extents are legal (depth 0 scales C); extents beyond `int` throw
/// InputError where a BLAS does the work.
///
/// Host spaces: CBLAS with its own threads, or `small_product` where a BLAS would cost more to enter than to run.
/// Kokkos kernels of OpenMP and Serial are complete when their launch returns, so no fence is needed.
/// Other spaces: enqueued on `execution`; their own BLAS if one is given (`DeviceBlas`, cuBLAS say), else a plain
/// kernel, which is right and slow.
template <class ExecutionSpace, class T>
void gemm(const ExecutionSpace& execution, Transpose transpose_a, Transpose transpose_b, std::int64_t rows,
          std::int64_t columns, std::int64_t depth, std::type_identity_t<T> alpha, const T* a, std::int64_t a_stride,
          const T* b, std::int64_t b_stride, std::type_identity_t<T> beta, T* c, std::int64_t c_stride,
          [[maybe_unused]] DeviceBlas<ExecutionSpace>* blas = nullptr) {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>, "kerkis: products are in float or double");
  if (rows == 0 || columns == 0) return;
  const bool ta = transpose_a == Transpose::yes, tb = transpose_b == Transpose::yes;
  const Strided<const T> left{a, ta ? 1 : a_stride, ta ? a_stride : 1}, right{b, tb ? 1 : b_stride, tb ? b_stride : 1};
  if constexpr (!Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename ExecutionSpace::memory_space>::accessible) {
    if constexpr (DeviceBlas<ExecutionSpace>::exists) {
      if (blas && depth > 0)
        return blas->product(execution, ta, tb, detail::narrow(rows), detail::narrow(columns), detail::narrow(depth),
                             alpha, a, detail::narrow(a_stride), b, detail::narrow(b_stride), beta, c,
                             detail::narrow(c_stride));
    }
    launch("kerkis::gemm", execution, rows * columns,
           detail::ProductElement<T>{columns, depth, alpha, left, right, beta, c, c_stride});
  } else if (alpha == T(1) && (beta == T(0) || beta == T(1)) && is_small_product(rows, columns, depth)) {
    small_product<T>(rows, columns, depth, left, right, c, c_stride, beta == T(1));
  } else if (depth == 0) {
    for (std::int64_t i = 0; i < rows; ++i)
      for (std::int64_t j = 0; j < columns; ++j) c[i * c_stride + j] = beta == T(0) ? T(0) : beta * c[i * c_stride + j];
  } else {
    detail::blas_product<T>(transpose_a, transpose_b, rows, columns, depth, alpha, a, a_stride, b, b_stride, beta, c,
                            c_stride);
  }
}

/// The same on matrices (rank-2 Views with unit column stride; rows may have gaps). Throws InputError if extents do not
/// match.
template <class ExecutionSpace, class A, class B, class C>
void gemm(const ExecutionSpace& execution, Transpose transpose_a, Transpose transpose_b, typename C::value_type alpha,
          const A& a, const B& b, typename C::value_type beta, const C& c, DeviceBlas<ExecutionSpace>* blas = nullptr) {
  static_assert(A::rank() == 2 && B::rank() == 2 && C::rank() == 2, "kerkis: a matrix product takes Views of rank 2");
  using T = typename C::value_type;
  const auto extent = [](const auto& view, bool second) {
    return static_cast<std::int64_t>(view.extent(second ? 1 : 0));
  };
  const auto stride = [](const auto& view) {
    return static_cast<std::int64_t>(view.extent(0) > 1 ? view.stride(0) : view.extent(1));
  };
  const bool ta = transpose_a == Transpose::yes, tb = transpose_b == Transpose::yes;
  const std::int64_t rows = extent(c, false), columns = extent(c, true), depth = extent(a, !ta);
  require(extent(a, ta) == rows && extent(b, !tb) == columns && extent(b, tb) == depth, "a matrix product of ",
          extent(a, ta), " × ", depth, " and ", extent(b, tb), " × ", extent(b, !tb), " does not fit into ", rows,
          " × ", columns);
  require(a.extent(1) < 2 || a.stride(1) == 1, "a matrix product takes row-major operands");
  require(b.extent(1) < 2 || b.stride(1) == 1, "a matrix product takes row-major operands");
  require(c.extent(1) < 2 || c.stride(1) == 1, "a matrix product takes row-major operands");
  gemm<ExecutionSpace, T>(execution, transpose_a, transpose_b, rows, columns, depth, alpha, a.data(), stride(a),
                          b.data(), stride(b), beta, c.data(), stride(c), blas);
}

}  // namespace kerkis::device
