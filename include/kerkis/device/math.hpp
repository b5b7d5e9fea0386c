// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <type_traits>

namespace kerkis::device {

/// exp and tanh without branches or calls, so that compilers vectorise loops over them without -ffast-math. Errors are
/// below 2.5 units in the last place (exp: 1); overflow, underflow, infinities and NaN come out as IEEE 754 wants them,
/// without flags.
///
/// exp(x) = 2^n (1 + q), where n is the integer nearest to x / ln 2, r = x - n ln 2 and q = e^r - 1 = r + r^2 g(r), |r|
/// <= 0.35. g is a polynomial through the Chebyshev nodes; ln 2 is split so that n ln2_high is exact.
namespace detail {

template <class T>
struct ExpTraits;

template <>
struct ExpTraits<float> {
  using Bits = std::uint32_t;
  static constexpr int mantissa = 23;
  static constexpr Bits bias = 127;
  static constexpr float exp_limit = 104.0f;  // exp is infinite there, and zero at the negative
  static constexpr float tanh_is_one = 10.0f;
  static constexpr float round = 0x1.8p23f;  // added to a number, leaves its nearest integer in the low bits
  static constexpr float log2_e = 0x1.715476p0f, ln2_high = 0x1.62e8p-1f, ln2_low = -0x1.e8082ep-16f;
  KOKKOS_FORCEINLINE_FUNCTION static float g(float r) {
    float p = 0x1.a1256cp-13f;
    p = p * r + 0x1.6d43b0p-10f;
    p = p * r + 0x1.1110e0p-7f;
    p = p * r + 0x1.5554e8p-5f;
    p = p * r + 0x1.555556p-3f;
    return p * r + 0.5f;
  }
};

template <>
struct ExpTraits<double> {
  using Bits = std::uint64_t;
  static constexpr int mantissa = 52;
  static constexpr Bits bias = 1023;
  static constexpr double exp_limit = 746.0;
  static constexpr double tanh_is_one = 20.0;
  static constexpr double round = 0x1.8p52;
  static constexpr double log2_e = 0x1.71547652b82fep0, ln2_high = 0x1.62e42fefa2p-1, ln2_low = 0x1.9ef35793c7673p-41;
  KOKKOS_FORCEINLINE_FUNCTION static double g(double r) {
    double p = 0x1.1f7340dbc337ep-29;
    p = p * r + 0x1.af4e554377204p-26;
    p = p * r + 0x1.27e4db46cddd1p-22;
    p = p * r + 0x1.71de01fdbf9cap-19;
    p = p * r + 0x1.a01a01a6e1e2ap-16;
    p = p * r + 0x1.a01a01abf85abp-13;
    p = p * r + 0x1.6c16c16c162c3p-10;
    p = p * r + 0x1.11111111100bep-7;
    p = p * r + 0x1.5555555555556p-5;
    p = p * r + 0x1.5555555555557p-3;
    return p * r + 0.5;
  }
};

/// x, or `limit` with the sign of x if it lies beyond; NaN stays. (One comparison: two would be made a branch.)
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T clamp_size(T x, T limit) {
  using Bits = typename ExpTraits<T>::Bits;
  constexpr Bits sign = Bits{1} << (8 * sizeof(T) - 1);
  const Bits bits = Kokkos::bit_cast<Bits>(x);
  const T size = Kokkos::bit_cast<T>(bits & ~sign);
  return Kokkos::bit_cast<T>(Kokkos::bit_cast<Bits>(size > limit ? limit : size) | (bits & sign));
}

/// n, as an integer in the low bits of `shifted`, and q.
template <class T>
struct ExpParts {
  T shifted, q;
};

template <class T>
KOKKOS_FORCEINLINE_FUNCTION ExpParts<T> exp_parts(T x) {
  using Traits = ExpTraits<T>;
  const T shifted = x * Traits::log2_e + Traits::round;
  const T n = shifted - Traits::round;
  const T r = (x - n * Traits::ln2_high) - n * Traits::ln2_low;
  return {shifted, r + r * r * Traits::g(r)};
}

}  // namespace detail

/// e to the power of x, for loops that vectorise.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T exp(T x) {
  using Traits = detail::ExpTraits<T>;
  using Bits = typename Traits::Bits;
  static_assert(std::is_floating_point_v<T>);
  constexpr T round = Traits::round;  // bit_cast takes a reference, and device code has no statics
  const auto [shifted, q] = detail::exp_parts(detail::clamp_size(x, Traits::exp_limit));
  // 2^n as a product of two halves: n reaches beyond the exponents of T at both ends.
  const Bits biased = Kokkos::bit_cast<Bits>(shifted) - Kokkos::bit_cast<Bits>(round) + 2 * Traits::bias;
  const Bits half = biased >> 1;
  const T scale = Kokkos::bit_cast<T>(half << Traits::mantissa);
  const T other_scale = Kokkos::bit_cast<T>((biased - half) << Traits::mantissa);
  return ((T(1) + q) * scale) * other_scale;
}

/// From t = exp(2|x|) - 1 as t / (t + 2), which loses nothing near zero.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION T tanh(T x) {
  using Traits = detail::ExpTraits<T>;
  using Bits = typename Traits::Bits;
  static_assert(std::is_floating_point_v<T>);
  constexpr Bits sign = Bits{1} << (8 * sizeof(T) - 1);
  constexpr T round = Traits::round;
  const Bits bits = Kokkos::bit_cast<Bits>(x);
  T size = Kokkos::bit_cast<T>(bits & ~sign);
  size = size > Traits::tanh_is_one ? Traits::tanh_is_one : size;
  const auto [shifted, q] = detail::exp_parts(2 * size);
  const Bits biased = Kokkos::bit_cast<Bits>(shifted) - Kokkos::bit_cast<Bits>(round) + Traits::bias;
  const T scale = Kokkos::bit_cast<T>(biased << Traits::mantissa);
  const T t = q * scale + (scale - T(1));
  return Kokkos::bit_cast<T>(Kokkos::bit_cast<Bits>(t / (t + T(2))) | (bits & sign));
}

}  // namespace kerkis::device
