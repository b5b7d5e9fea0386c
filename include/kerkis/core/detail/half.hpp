// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include <kerkis/core/macros.hpp>

namespace kerkis::detail {

/// The float next to `value` towards zero, made odd in its last digit if it is not exact: what is rounded to two digits
/// fewer, or more, afterwards is then as if `value` had been rounded once (S. Boldo, G. Melquiond, Emulation of FMA and
/// correctly rounded sums, IEEE Transactions on Computers 57, 2008).
KERKIS_FUNCTION constexpr float to_odd(double value) {
  const float near = static_cast<float>(value);
  if (static_cast<double>(near) == value || value != value) return near;
  std::uint32_t bits = __builtin_bit_cast(std::uint32_t, near);
  if ((static_cast<double>(near) > value) == (value > 0)) --bits;
  return __builtin_bit_cast(float, bits | 1u);
}

/// A floating-point number of two bytes. `Format` converts: `to_float(bits)`, which is exact, and `from_float(value)`,
/// which rounds to the nearest, ties to even.
///
/// It becomes a float by itself, so it is compared as a float, and mixed expressions are float. Nothing becomes a Half
/// unless told to, since that rounds: once, also from double and from integers up to 2^53. An operation of two Halves
/// is computed in float and rounded, which gives what rounding once would. Functions are for host and device.
template <class Format>
class Half {
 public:
  Half() = default;  ///< as float: without a value, Half{} is 0

  template <class T>
    requires std::is_arithmetic_v<T>
  KERKIS_FUNCTION explicit constexpr Half(T value) : bits_(Format::from_float(narrow(value))) {}

  KERKIS_FUNCTION static constexpr Half from_bits(std::uint16_t bits) {
    Half result{};
    result.bits_ = bits;
    return result;
  }
  KERKIS_FUNCTION constexpr std::uint16_t bits() const { return bits_; }

  KERKIS_FUNCTION constexpr operator float() const { return Format::to_float(bits_); }

  KERKIS_FUNCTION constexpr Half operator+() const { return *this; }
  KERKIS_FUNCTION constexpr Half operator-() const { return from_bits(static_cast<std::uint16_t>(bits_ ^ 0x8000u)); }

  KERKIS_FUNCTION friend constexpr Half operator+(Half a, Half b) { return Half(float(a) + float(b)); }
  KERKIS_FUNCTION friend constexpr Half operator-(Half a, Half b) { return Half(float(a) - float(b)); }
  KERKIS_FUNCTION friend constexpr Half operator*(Half a, Half b) { return Half(float(a) * float(b)); }
  KERKIS_FUNCTION friend constexpr Half operator/(Half a, Half b) { return Half(float(a) / float(b)); }

  KERKIS_FUNCTION constexpr Half& operator+=(float other) { return *this = Half(float(*this) + other); }
  KERKIS_FUNCTION constexpr Half& operator-=(float other) { return *this = Half(float(*this) - other); }
  KERKIS_FUNCTION constexpr Half& operator*=(float other) { return *this = Half(float(*this) * other); }
  KERKIS_FUNCTION constexpr Half& operator/=(float other) { return *this = Half(float(*this) / other); }

 private:
  template <class T>
  KERKIS_FUNCTION static constexpr float narrow(T value) {
    if constexpr (std::is_same_v<T, float>)
      return value;
    else
      return to_odd(static_cast<double>(value));
  }

  std::uint16_t bits_;
};

/// numeric_limits of a Half of so many binary digits (with the leading one) and exponents.
template <class Half, int binary_digits, int largest_exponent>
struct HalfLimits {
  static constexpr bool is_specialized = true, is_signed = true, is_integer = false, is_exact = false;
  static constexpr bool has_infinity = true, has_quiet_NaN = true, has_signaling_NaN = true;
  static constexpr bool is_iec559 = binary_digits == 11, is_bounded = true, is_modulo = false;
  static constexpr bool traps = false, tinyness_before = false;
  static constexpr std::float_round_style round_style = std::round_to_nearest;
  static constexpr int radix = 2, digits = binary_digits;
  static constexpr int max_exponent = largest_exponent, min_exponent = 3 - largest_exponent;
  static constexpr int digits10 = (digits - 1) * 30103 / 100000, max_digits10 = 2 + digits * 30103 / 100000;
  static constexpr int max_exponent10 = (max_exponent - 1) * 30103 / 100000;
  static constexpr int min_exponent10 = -((1 - min_exponent) * 30103 / 100000);

  KERKIS_FUNCTION static constexpr Half min() noexcept { return bits(1u << (digits - 1)); }
  KERKIS_FUNCTION static constexpr Half max() noexcept { return bits(infinite - 1u); }
  KERKIS_FUNCTION static constexpr Half lowest() noexcept { return bits(0x8000u | (infinite - 1u)); }
  KERKIS_FUNCTION static constexpr Half denorm_min() noexcept { return bits(1u); }
  KERKIS_FUNCTION static constexpr Half epsilon() noexcept { return Half(2.0f / static_cast<float>(1 << digits)); }
  KERKIS_FUNCTION static constexpr Half round_error() noexcept { return Half(0.5f); }
  KERKIS_FUNCTION static constexpr Half infinity() noexcept { return bits(infinite); }
  KERKIS_FUNCTION static constexpr Half quiet_NaN() noexcept { return bits(infinite | 1u << (digits - 2)); }
  KERKIS_FUNCTION static constexpr Half signaling_NaN() noexcept { return bits(infinite | 1u << (digits - 3)); }

 private:
  static constexpr unsigned infinite = 0x7fffu >> (digits - 1) << (digits - 1);
  KERKIS_FUNCTION static constexpr Half bits(unsigned pattern) noexcept {
    return Half::from_bits(static_cast<std::uint16_t>(pattern));
  }
};

}  // namespace kerkis::detail
