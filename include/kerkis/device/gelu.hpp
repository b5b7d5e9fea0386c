// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include <kerkis/device/launch.hpp>
#include <kerkis/device/math.hpp>

namespace kerkis::device {

/// GELU in its tanh form (Hendrycks, Gimpel 2016, arXiv:1606.08415): x (1 + tanh u) / 2 with u = √(2/π) (x + 0.044715
/// x³), computed as x s with the logistic function s = 1 / (1 + e^(-2u)), which is the same number and keeps its digits
/// where s is small.
namespace detail {

template <class T>
struct GeluForward {
  std::int64_t columns;
  const T* bias;
  const T* in;
  T* out;
  T* derivative;

  KOKKOS_FUNCTION void operator()(std::int64_t row) const {
    constexpr T cubic = T(0.044715), twice_root = T(1.5957691216057307117597842397375);  // 2 √(2/π)
    const T* const source = in + row * columns;
    T* const y = out + row * columns;
    T* const dy = derivative + row * columns;
    for (std::int64_t i = 0; i < columns; ++i) {
      const T x = bias == nullptr ? source[i] : source[i] + bias[i];
      const T square = x * x;
      const T s = T(1) / (T(1) + exp(-(twice_root * x * (T(1) + cubic * square))));
      y[i] = x * s;
      dy[i] = s + x * s * (T(1) - s) * (twice_root * (T(1) + 3 * cubic * square));
    }
  }
};

template <class T>
struct Product {
  std::int64_t columns;
  const T* left;
  const T* right;
  T* out;

  KOKKOS_FUNCTION void operator()(std::int64_t row) const {
    const T* const a = left + row * columns;
    const T* const b = right + row * columns;
    T* const c = out + row * columns;
    for (std::int64_t i = 0; i < columns; ++i) c[i] = a[i] * b[i];
  }
};

}  // namespace detail

/// out = gelu(in + bias), and its derivative, which may overwrite `in`. No bias if it is null.
template <class ExecutionSpace, class T>
void gelu_forward(const ExecutionSpace& execution, std::int64_t rows, std::int64_t columns, const T* bias, const T* in,
                  T* out, T* derivative) {
  launch("kerkis::gelu", execution, rows, detail::GeluForward<T>{columns, bias, in, out, derivative});
}

/// out = left ∘ right on contiguous rows; in place is legal.
template <class ExecutionSpace, class T>
void multiply(const ExecutionSpace& execution, std::int64_t rows, std::int64_t columns, const T* left, const T* right,
              T* out) {
  launch("kerkis::product", execution, rows, detail::Product<T>{columns, left, right, out});
}

}  // namespace kerkis::device
