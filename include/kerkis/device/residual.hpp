// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include <kerkis/device/dropout.hpp>
#include <kerkis/device/launch.hpp>
#include <kerkis/device/layer_norm.hpp>

namespace kerkis::device {
namespace detail {

template <class T>
struct AddBias {
  std::int64_t columns;
  const T* bias;
  T* values;

  KOKKOS_FUNCTION void operator()(std::int64_t row) const {
    T* const v = values + row * columns;
    for (std::int64_t i = 0; i < columns; ++i) v[i] += bias[i];
  }
};

template <class T>
struct AddResidual {
  std::int64_t columns;
  const T* branch;
  const T* bias;
  const T* residual;
  T* out;
  DropoutMask<T> mask;
  std::uint64_t first;
  Norm<T> norm;
  T* normalised;

  KOKKOS_FUNCTION void operator()(std::int64_t row) const {
    const std::int64_t start = row * columns;
    const T* const a = branch + start;
    const T* const r = residual + start;
    T* const o = out + start;
    if (mask.active()) {
      T factor[DropoutMask<T>::chunk];
      for (std::int64_t done = 0; done < columns; done += mask.chunk) {
        const std::int64_t part = columns - done < mask.chunk ? columns - done : mask.chunk;
        mask.factors(first + static_cast<std::uint64_t>(start + done), part, factor);
        for (std::int64_t i = 0; i < part; ++i) o[done + i] = r[done + i] + (a[done + i] + bias[done + i]) * factor[i];
      }
    } else {
      for (std::int64_t i = 0; i < columns; ++i) o[i] = r[i] + (a[i] + bias[i]);
    }
    if (normalised != nullptr) norm.forward(row, o, normalised + start);
  }
};

}  // namespace detail

/// values += bias, for each of the contiguous rows.
template <class ExecutionSpace, class T>
void add_bias(const ExecutionSpace& execution, std::int64_t rows, std::int64_t columns, const T* bias, T* values) {
  launch("kerkis::bias", execution, rows, detail::AddBias<T>{columns, bias, values});
}

/// out = residual + (branch + bias) ∘ mask; the first element has the global index `first`.
template <class ExecutionSpace, class T>
void add_residual(const ExecutionSpace& execution, std::int64_t rows, std::int64_t columns, const T* branch,
                  const T* bias, const T* residual, T* out, const DropoutMask<T>& mask, std::uint64_t first) {
  launch("kerkis::resid", execution, rows,
         detail::AddResidual<T>{columns, branch, bias, residual, out, mask, first, Norm<T>{}, nullptr});
}

/// The same, and normalised = norm(out) while the row is in the cache.
template <class ExecutionSpace, class T>
void add_residual_and_norm(const ExecutionSpace& execution, std::int64_t rows, const T* branch, const T* bias,
                           const T* residual, T* out, const DropoutMask<T>& mask, std::uint64_t first,
                           const Norm<T>& norm, T* normalised) {
  launch("kerkis::res_ln", execution, rows,
         detail::AddResidual<T>{norm.width, branch, bias, residual, out, mask, first, norm, normalised});
}

}  // namespace kerkis::device
