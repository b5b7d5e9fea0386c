// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kerkis/core/detail/half.hpp>

namespace kerkis {

namespace detail {

struct Brain16 {
  KERKIS_FUNCTION static constexpr float to_float(std::uint16_t half) {
    return __builtin_bit_cast(float, static_cast<std::uint32_t>(half) << 16);
  }

  KERKIS_FUNCTION static constexpr std::uint16_t from_float(float value) {
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t rounded = bits + 0x7fffu + (bits >> 16 & 1u);
    return static_cast<std::uint16_t>(((bits & 0x7fffffffu) > 0x7f800000u ? bits | 0x00400000u : rounded) >> 16);
  }
};

}  // namespace detail

/// The upper half of a float: two bytes in memory and on the wire, 8 binary digits, the range of float with its
/// subnormals. Rounding makes a NaN quiet; the way to float keeps its bits.
using bfloat16 = detail::Half<detail::Brain16>;

}  // namespace kerkis

template <>
struct std::numeric_limits<kerkis::bfloat16> : kerkis::detail::HalfLimits<kerkis::bfloat16, 8, 128> {
  static constexpr std::float_denorm_style has_denorm = std::denorm_present;
};
