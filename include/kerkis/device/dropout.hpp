// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include <kerkis/core/philox.hpp>
#include <kerkis/device/launch.hpp>

namespace kerkis::device {

/// Inverted dropout by global element index: the factor of element `index` is 0 with probability `rate`, else 1 / (1 -
/// rate). It is computed anew in the backward pass and never stored. Inactive (rate 0, or evaluation): every factor
/// is 1.
template <class T>
class DropoutMask {
 public:
  DropoutMask() : DropoutMask(Random(0, 0), 0) {}
  /// `rate`: at least 0 and below 1.
  DropoutMask(const Random& random, double rate)
      : random_(random), dropped_(static_cast<std::uint32_t>(rate * 0x1p32)), scale_(static_cast<T>(1 / (1 - rate))),
        active_(rate > 0) {}

  /// Whether it drops anything.
  KOKKOS_FORCEINLINE_FUNCTION bool active() const { return active_; }

  /// The most factors of one call of `factors`.
  static constexpr int chunk = 64;

  /// The factors of the elements first … first + count - 1.
  KOKKOS_FUNCTION void factors(std::uint64_t first, std::int64_t count, T* out) const {
    std::uint32_t words[chunk + 4];
    const std::uint64_t block = first / 4;
    const int skipped = static_cast<int>(first % 4);
    const int blocks = static_cast<int>((skipped + count + 3) / 4);
    for (int b = 0; b < blocks; ++b) {
      const auto four = random_.block(block + static_cast<std::uint64_t>(b));
      for (int i = 0; i < 4; ++i) words[4 * b + i] = four[static_cast<std::size_t>(i)];
    }
    for (int i = 0; i < count; ++i) out[i] = words[skipped + i] < dropped_ ? T(0) : scale_;
  }

  /// out[i] = in[i] times its factor, for a row that begins at element `first`. In place is legal.
  KOKKOS_FUNCTION void apply(std::uint64_t first, std::int64_t count, const T* in, T* out) const {
    if (!active_) {
      for (std::int64_t i = 0; i < count; ++i) out[i] = in[i];
      return;
    }
    T factor[chunk];
    for (std::int64_t done = 0; done < count; done += chunk) {
      const std::int64_t part = count - done < chunk ? count - done : chunk;
      factors(first + static_cast<std::uint64_t>(done), part, factor);
      for (std::int64_t i = 0; i < part; ++i) out[done + i] = in[done + i] * factor[i];
    }
  }

 private:
  Random random_;
  std::uint32_t dropped_;
  T scale_;
  bool active_;
};

namespace detail {

template <class T>
struct DropoutRows {
  std::int64_t columns;
  DropoutMask<T> mask;
  std::uint64_t first, row_stride;
  const T* in;
  T* out;

  KOKKOS_FUNCTION void operator()(std::int64_t row) const {
    mask.apply(first + static_cast<std::uint64_t>(row) * row_stride, columns, in + row * columns, out + row * columns);
  }
};

}  // namespace detail

/// out = in ∘ mask on contiguous rows; the first element of row r has the global index first + r * row_stride.
template <class ExecutionSpace, class T>
void dropout(const ExecutionSpace& execution, std::int64_t rows, std::int64_t columns, const DropoutMask<T>& mask,
             std::uint64_t first, std::uint64_t row_stride, const T* in, T* out) {
  launch("kerkis::dropout", execution, rows, detail::DropoutRows<T>{columns, mask, first, row_stride, in, out});
}

}  // namespace kerkis::device
