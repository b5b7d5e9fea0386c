// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>

#include <kerkis/core/detail/half.hpp>

/// 1 where the processor converts: the same bits come from it several times faster.
#if defined(__F16C__) && defined(__FLT16_MANT_DIG__) && !defined(__CUDACC__) && !defined(__HIPCC__) &&                 \
    (defined(__clang__) || __GNUC__ >= 13)
#define KERKIS_NATIVE_FLOAT16 1
#else
#define KERKIS_NATIVE_FLOAT16 0
#endif

namespace kerkis {

namespace detail {

/// Every branch is a choice between values, so that loops over them become vector code.
struct Binary16 {
  KERKIS_FUNCTION static constexpr float to_float(std::uint16_t half) {
#if KERKIS_NATIVE_FLOAT16
    if (!std::is_constant_evaluated()) return static_cast<float>(__builtin_bit_cast(_Float16, half));
#endif
    const std::uint32_t magnitude = half & 0x7fffu, sign = (half & 0x8000u) << 16;
    const std::uint32_t tiny =
        __builtin_bit_cast(std::uint32_t, static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f);
    const std::uint32_t normal = (magnitude << 13) + (112u << 23);
    const std::uint32_t special = 0x7f800000u | magnitude << 13 | (magnitude > 0x7c00u ? 0x00400000u : 0u);
    return __builtin_bit_cast(float, sign | (magnitude < 0x0400u ? tiny : magnitude < 0x7c00u ? normal : special));
  }

  KERKIS_FUNCTION static constexpr std::uint16_t from_float(float value) {
#if KERKIS_NATIVE_FLOAT16
    if (!std::is_constant_evaluated()) return __builtin_bit_cast(std::uint16_t, static_cast<_Float16>(value));
#endif
    const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, value);
    const std::uint32_t magnitude = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
    // The last digit of floats from 0.5 to 1 is that of the subnormal halves: the addition rounds there.
    const std::uint32_t tiny =
        __builtin_bit_cast(std::uint32_t, __builtin_bit_cast(float, magnitude < 0x38800000u ? magnitude : 0u) + 0.5f) -
        0x3f000000u;
    const std::uint32_t normal = (magnitude - (112u << 23) + 0x0fffu + (magnitude >> 13 & 1u)) >> 13;
    const std::uint32_t special = magnitude > 0x7f800000u ? 0x7e00u | (magnitude >> 13 & 0x03ffu) : 0x7c00u;
    const std::uint32_t half = magnitude < 0x38800000u ? tiny : magnitude < 0x477ff000u ? normal : special;
    return static_cast<std::uint16_t>(sign | half);
  }
};

}  // namespace detail

/// IEEE 754 binary16: two bytes in memory and on the wire, 11 binary digits, up to 65504, subnormals down to 2^-24.
/// Conversions assume that floats round to the nearest. A quiet NaN stays a quiet NaN.
using float16 = detail::Half<detail::Binary16>;

}  // namespace kerkis

template <>
struct std::numeric_limits<kerkis::float16> : kerkis::detail::HalfLimits<kerkis::float16, 11, 16> {
  static constexpr std::float_denorm_style has_denorm = std::denorm_present;
};
