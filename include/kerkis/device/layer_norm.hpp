// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include <kerkis/device/dropout.hpp>
#include <kerkis/device/lanes.hpp>
#include <kerkis/device/launch.hpp>

namespace kerkis::device {

/// Layer normalisation over the columns of a row (Ba, Kiros, Hinton 2016, arXiv:1607.06450): y = gain (x - mean) /
/// √(variance + ε) + bias.
template <class T>
struct Norm {
  std::int64_t width;  ///< columns of a row
  T epsilon;           ///< ε
  const T* gain;       ///< width
  const T* bias;       ///< width
  T* statistics;       ///< rows × 2: mean and 1/√(variance + ε)

  /// y of a row, and its statistics.
  KOKKOS_FORCEINLINE_FUNCTION void forward(std::int64_t row, const T* x, T* y) const {
    const T mean = sum_of<T>(width, [=](std::int64_t i) { return x[i]; }) / static_cast<T>(width);
    const T variance =
        sum_of<T>(width, [=](std::int64_t i) { return (x[i] - mean) * (x[i] - mean); }) / static_cast<T>(width);
    const T inverse = T(1) / Kokkos::sqrt(variance + epsilon);
    for (std::int64_t i = 0; i < width; ++i) y[i] = (x[i] - mean) * inverse * gain[i] + bias[i];
    statistics[2 * row] = mean;
    statistics[2 * row + 1] = inverse;
  }

  /// dx += the gradient with respect to x.
  KOKKOS_FORCEINLINE_FUNCTION void backward(std::int64_t row, const T* dy, const T* x, T* dx) const {
    const T mean = statistics[2 * row], inverse = statistics[2 * row + 1];
    const T* const g = gain;
    const T sum = sum_of<T>(width, [=](std::int64_t i) { return dy[i] * g[i]; }) / static_cast<T>(width);
    const T dot = sum_of<T>(width, [=](std::int64_t i) { return dy[i] * g[i] * ((x[i] - mean) * inverse); }) /
                  static_cast<T>(width);
    for (std::int64_t i = 0; i < width; ++i) dx[i] += inverse * (dy[i] * g[i] - sum - (x[i] - mean) * inverse * dot);
  }
};

namespace detail {

template <class T>
struct NormForward {
  Norm<T> norm;
  const T* x;
  T* y;

  KOKKOS_FUNCTION void operator()(std::int64_t row) const {
    norm.forward(row, x + row * norm.width, y + row * norm.width);
  }
};

template <class T>
struct NormBackward {
  Norm<T> norm;
  const T* dy;
  const T* x;
  const T* residual;
  T* dx;
  T* masked;
  DropoutMask<T> mask;
  std::uint64_t first;

  KOKKOS_FUNCTION void operator()(std::int64_t row) const {
    const std::int64_t width = norm.width, start = row * width;
    T* const out = dx + start;
    if (residual == nullptr)
      for (std::int64_t i = 0; i < width; ++i) out[i] = T(0);
    else if (residual != dx)
      for (std::int64_t i = 0; i < width; ++i) out[i] = residual[start + i];
    norm.backward(row, dy + start, x + start, out);
    if (masked != nullptr) mask.apply(first + static_cast<std::uint64_t>(start), width, out, masked + start);
  }
};

template <class T>
struct NormWeights {
  std::int64_t rows, width;
  const T* dy;
  const T* x;
  const T* statistics;
  T* gain;
  T* bias;

  KOKKOS_FUNCTION void operator()(std::int64_t block) const {
    const std::int64_t begin = block * column_block;
    const std::int64_t count = width - begin < column_block ? width - begin : column_block;
    T gains[column_block], biases[column_block];
    for (std::int64_t i = 0; i < count; ++i) gains[i] = biases[i] = T(0);
    for (std::int64_t row = 0; row < rows; ++row) {
      const T* const d = dy + row * width + begin;
      const T* const v = x + row * width + begin;
      const T mean = statistics[2 * row], inverse = statistics[2 * row + 1];
      for (std::int64_t i = 0; i < count; ++i) {
        gains[i] += d[i] * ((v[i] - mean) * inverse);
        biases[i] += d[i];
      }
    }
    for (std::int64_t i = 0; i < count; ++i) {
      gain[begin + i] += gains[i];
      bias[begin + i] += biases[i];
    }
  }
};

}  // namespace detail

/// y = norm(x), and its statistics.
template <class ExecutionSpace, class T>
void norm_forward(const ExecutionSpace& execution, std::int64_t rows, const Norm<T>& norm, const T* x, T* y) {
  launch("kerkis::norm", execution, rows, detail::NormForward<T>{norm, x, y});
}

/// dx = residual + the gradient of norm at x, where `residual` is null (none), `dx` itself, or other memory; if
/// `masked` is not null, masked = dx ∘ mask, whose first element has the global index `first`.
template <class ExecutionSpace, class T>
void norm_backward(const ExecutionSpace& execution, std::int64_t rows, const Norm<T>& norm, const T* dy, const T* x,
                   const T* residual, T* dx, T* masked = nullptr, const DropoutMask<T>& mask = {},
                   std::uint64_t first = 0) {
  launch("kerkis::norm_b", execution, rows, detail::NormBackward<T>{norm, dy, x, residual, dx, masked, mask, first});
}

/// Adds to the gradients of gain and bias; the order of the sums does not depend on the number of threads.
template <class ExecutionSpace, class T>
void norm_weights(const ExecutionSpace& execution, std::int64_t rows, const Norm<T>& norm, const T* dy, const T* x,
                  T* gain_gradient, T* bias_gradient) {
  launch("kerkis::norm_w", execution, column_blocks(norm.width),
         detail::NormWeights<T>{rows, norm.width, dy, x, norm.statistics, gain_gradient, bias_gradient});
}

}  // namespace kerkis::device
