// SPDX-License-Identifier: Apache-2.0
// The types of two bytes: every one of their values, and the rounding to them, beside a decoder that is written from
// the definition, and beside the compiler's types where it has them.
#include <doctest/doctest.h>
#include <kerkis/core/bfloat16.hpp>
#include <kerkis/core/float16.hpp>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <sstream>
#include <type_traits>

namespace {

using kerkis::bfloat16;
using kerkis::float16;

template <class T>
constexpr bool is_like_a_number =
    sizeof(T) == 2 && std::is_trivially_copyable_v<T> && std::is_trivially_default_constructible_v<T> &&
    std::is_convertible_v<T, float> && !std::is_convertible_v<float, T> && !std::is_convertible_v<int, T> &&
    std::is_same_v<decltype(T() + T()), T> && std::is_same_v<decltype(T() + 1.0f), float> &&
    std::is_same_v<decltype(T() * 1.0), double>;
static_assert(is_like_a_number<float16> && is_like_a_number<bfloat16>);

static_assert(float16(1).bits() == 0x3c00 && float16(-2.0).bits() == 0xc000 && float16(65504.0f).bits() == 0x7bff);
static_assert(float16(65520.0f).bits() == 0x7c00 && float16(0x1p-24f).bits() == 1 && float16(0x1p-25f).bits() == 0);
static_assert(float16(1) + float16(2) == float16(3) && -float16(1) < float16(0) && float16(0.5f) * 4 == 2);
static_assert(bfloat16(1).bits() == 0x3f80 && bfloat16(1.00390625f) == 1.0f && bfloat16(1.01171875f) == 1.015625f);
static_assert(float16{} == 0 && bfloat16{} == 0);

template <class T>
constexpr bool limits_fit() {
  using Limits = std::numeric_limits<T>;
  return Limits::min() == std::ldexp(1.0f, Limits::min_exponent - 1) &&
         Limits::denorm_min() == std::ldexp(1.0f, Limits::min_exponent - Limits::digits) &&
         Limits::epsilon() == std::ldexp(1.0f, 1 - Limits::digits) &&
         Limits::max() == std::ldexp(2.0f - float(Limits::epsilon()), Limits::max_exponent - 1) &&
         Limits::lowest() == -Limits::max() && std::isinf(Limits::infinity()) && std::isnan(Limits::quiet_NaN()) &&
         std::isnan(Limits::signaling_NaN());
}

/// The value of a pattern, by definition.
double decode(unsigned bits, int fraction_digits) {
  const int exponent_digits = 15 - fraction_digits, bias = (1 << (exponent_digits - 1)) - 1;
  const int exponent = static_cast<int>(bits >> fraction_digits) & ((1 << exponent_digits) - 1);
  const double fraction = std::ldexp(bits & ((1u << fraction_digits) - 1), -fraction_digits);
  const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
  if (exponent == (1 << exponent_digits) - 1)
    return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
  return exponent == 0 ? sign * std::ldexp(fraction, 1 - bias) : sign * std::ldexp(1 + fraction, exponent - bias);
}

template <class T>
T of(unsigned bits) {
  return T::from_bits(static_cast<std::uint16_t>(bits));
}

template <class T>
constexpr int fraction_digits = std::numeric_limits<T>::digits - 1;

/// Counts what is wrong; 65,536 CHECKs would take seconds.
template <class T>
int wrong_values() {
  int wrong = 0;
  for (unsigned bits = 0; bits < 0x10000u; ++bits) {
    const float value = of<T>(bits);
    const double expected = decode(bits, fraction_digits<T>);
    const T back(value);
    if (std::isnan(expected)) {
      const unsigned quiet = bits | 1u << (fraction_digits<T> - 1);
      // A compiler may leave conversions there and back out: then a signalling NaN stays one.
      wrong += !std::isnan(value) || !std::isnan(back) || (back.bits() | quiet) != quiet;
    } else {
      wrong += static_cast<double>(value) != expected || std::signbit(value) != std::signbit(expected) ||
               back.bits() != bits || T(expected).bits() != bits || (-of<T>(bits)).bits() != (bits ^ 0x8000u);
    }
  }
  return wrong;
}

/// Between each two neighbours: just below the middle, the middle, just above, as float and as double.
template <class T>
int wrong_roundings() {
  int wrong = 0;
  for (unsigned bits = 0; decode(bits, fraction_digits<T>) <= std::numeric_limits<T>::max(); ++bits) {
    const double low = decode(bits, fraction_digits<T>);
    const double high = bits + 1 == std::numeric_limits<T>::infinity().bits()
                            ? std::ldexp(1.0, std::numeric_limits<T>::max_exponent)
                            : decode(bits + 1, fraction_digits<T>);
    const double middle = low / 2 + high / 2;
    const unsigned even = bits + (bits & 1u);
    for (const double sign : {1.0, -1.0}) {
      const unsigned add = sign < 0 ? 0x8000u : 0u;
      const auto is = [&](auto value, unsigned pattern) {
        wrong += T(static_cast<decltype(value)>(sign) * value).bits() != (pattern | add);
      };
      is(middle, even);
      is(std::nextafter(middle, 0.0), bits);
      is(std::nextafter(middle, 2 * high), bits + 1);
      if (const float exact = static_cast<float>(middle); static_cast<double>(exact) == middle) {
        is(exact, even);
        is(std::nextafterf(exact, 0.0f), bits);
        is(std::nextafterf(exact, std::numeric_limits<float>::infinity()), bits + 1);
      }
    }
  }
  return wrong;
}

template <class T>
void check_type() {
  CHECK(limits_fit<T>());
  CHECK(wrong_values<T>() == 0);
  CHECK(wrong_roundings<T>() == 0);
  CHECK(std::isinf(T(std::numeric_limits<double>::max())));
  CHECK(std::isinf(T(std::numeric_limits<float>::infinity())));
  CHECK(std::signbit(T(-0.0)));
  CHECK(T(1e-300).bits() == 0);
  CHECK(T(-1e-300).bits() == 0x8000);
  CHECK(T((1LL << 40) + 1) == float(T(0x1p40)));
  const T nan = std::numeric_limits<T>::quiet_NaN();
  CHECK_FALSE(nan == nan);
  CHECK_FALSE(nan < T(0));
  CHECK((T(std::numeric_limits<float>::signaling_NaN()).bits() & nan.bits()) == nan.bits());
  CHECK(of<T>(0x8000u) == T(0));

  T sum(1);
  sum += T(2);
  sum *= 3.0f;
  sum -= 1;
  sum /= 4;
  CHECK(sum == 2);
  CHECK(std::sqrt(T(4)) == 2);
  std::ostringstream text;
  text << T(1.5f);
  CHECK(text.str() == "1.5");
}

TEST_CASE("float16: every value, every middle between two") {
  check_type<float16>();
  CHECK(std::numeric_limits<float16>::digits10 == 3);
  CHECK(std::numeric_limits<float16>::max_digits10 == 5);
  CHECK(std::numeric_limits<float16>::max_exponent10 == 4);
  CHECK(std::numeric_limits<float16>::min_exponent10 == -4);
}

TEST_CASE("bfloat16: every value, every middle between two") {
  check_type<bfloat16>();
  CHECK(std::numeric_limits<bfloat16>::digits10 == 2);
  CHECK(std::numeric_limits<bfloat16>::max_digits10 == 4);
  CHECK(std::numeric_limits<bfloat16>::max_exponent10 == 38);
  CHECK(std::numeric_limits<bfloat16>::min_exponent10 == -37);
}

/// Over a sample of all floats, with every exponent.
template <class T, class Native>
int differences() {
  int different = 0;
  for (std::uint64_t pattern = 0; pattern < (std::uint64_t{1} << 32); pattern += 2053) {
    const float value = std::bit_cast<float>(static_cast<std::uint32_t>(pattern));
    const auto native = std::bit_cast<std::uint16_t>(static_cast<Native>(value));
    if (std::isnan(value))
      different += !std::isnan(T(value)) || (T(value).bits() & 0x8000) != (native & 0x8000);
    else
      different += T(value).bits() != native;
  }
  for (unsigned bits = 0; bits < 0x10000u; ++bits) {
    const float a = of<T>(bits), b = static_cast<float>(std::bit_cast<Native>(static_cast<std::uint16_t>(bits)));
    different += std::isnan(a) ? !std::isnan(b) : std::bit_cast<std::uint32_t>(a) != std::bit_cast<std::uint32_t>(b);
  }
  return different;
}

#if defined(__STDCPP_FLOAT16_T__) || defined(__FLT16_MANT_DIG__)
#if !defined(__GNUC__) || defined(__clang__) || __GNUC__ >= 13
TEST_CASE("float16 rounds as the compiler's _Float16") { CHECK(differences<float16, _Float16>() == 0); }
#endif
#endif
#if defined(__BFLT16_MANT_DIG__)
TEST_CASE("bfloat16 rounds as the compiler's __bf16") { CHECK(differences<bfloat16, __bf16>() == 0); }
#endif

}  // namespace
