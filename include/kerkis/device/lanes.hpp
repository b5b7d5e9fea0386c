// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

namespace kerkis::device {

/// Reductions over an index in a fixed order that compilers can vectorise without -ffast-math: element i goes to lane i
/// mod 16, then the lanes are folded in halves. `f(i)` gives the element.
inline constexpr int lanes = 16;

/// The sum of f(0) to f(count - 1).
template <class T, class F>
KOKKOS_FORCEINLINE_FUNCTION T sum_of(std::int64_t count, const F& f) {
  T lane[lanes];
  for (int l = 0; l < lanes; ++l) lane[l] = T(0);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int l = 0; l < lanes; ++l) lane[l] += f(i + l);
  for (int l = 0; i + l < count; ++l) lane[l] += f(i + l);
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) lane[l] += lane[l + width];
  return lane[0];
}

/// The largest element, `least` if there is none. A NaN may or may not come out: sums that follow show it.
template <class T, class F>
KOKKOS_FORCEINLINE_FUNCTION T maximum_of(std::int64_t count, T least, const F& f) {
  T lane[lanes];
  for (int l = 0; l < lanes; ++l) lane[l] = least;
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (int l = 0; l < lanes; ++l) {
      const T value = f(i + l);
      lane[l] = value > lane[l] ? value : lane[l];
    }
  for (int l = 0; i + l < count; ++l) {
    const T value = f(i + l);
    lane[l] = value > lane[l] ? value : lane[l];
  }
  for (int width = lanes / 2; width > 0; width /= 2)
    for (int l = 0; l < width; ++l) lane[l] = lane[l + width] > lane[l] ? lane[l + width] : lane[l];
  return lane[0];
}

}  // namespace kerkis::device
