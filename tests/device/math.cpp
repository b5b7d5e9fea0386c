// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include <kerkis/device/lanes.hpp>
#include <kerkis/device/math.hpp>

namespace {

template <class T>
void exp_all(const std::vector<T>& x, std::vector<T>& y) {
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = kerkis::device::exp(x[i]);
}
template <class T>
void tanh_all(const std::vector<T>& x, std::vector<T>& y) {
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = kerkis::device::tanh(x[i]);
}

/// |value - exact| in units in the last place of `exact`.
template <class T>
double ulps(T value, long double exact) {
  const T size = std::abs(static_cast<T>(exact));
  const auto unit = static_cast<long double>(std::nextafter(size, std::numeric_limits<T>::infinity())) -
                    static_cast<long double>(size);
  return static_cast<double>(std::abs(static_cast<long double>(value) - exact) / unit);
}

template <class T>
std::vector<T> range(T low, T high, std::size_t count) {
  std::vector<T> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = low + (high - low) * static_cast<T>(i) / static_cast<T>(count - 1);
  return x;
}

template <class T>
bool same_bits(T a, T b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

}  // namespace

TEST_CASE_TEMPLATE("exp and tanh are accurate", T, float, double) {
  const T limit = sizeof(T) == 4 ? T(110) : T(760);
  for (const T bound : {limit, T(1), T(1e-3)}) {
    const auto x = range<T>(-bound, bound, 50000);
    std::vector<T> e(x.size()), t(x.size());
    exp_all(x, e);
    tanh_all(x, t);
    double worst_exp = 0, worst_tanh = 0;
    bool infinite = true;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const long double exact = std::exp(static_cast<long double>(x[i]));
      if (std::isfinite(static_cast<T>(exact)))
        worst_exp = std::max(worst_exp, ulps(e[i], exact));
      else
        infinite = infinite && std::isinf(e[i]);
      worst_tanh = std::max(worst_tanh, ulps(t[i], std::tanh(static_cast<long double>(x[i]))));
    }
    CHECK(worst_exp < 1.1);
    CHECK(worst_tanh < 2.6);
    CHECK(infinite);
  }
}

TEST_CASE_TEMPLATE("exp and tanh of special values", T, float, double) {
  using Limits = std::numeric_limits<T>;
  const std::vector<T> x{Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN(), T(0), -T(0),
                         Limits::max(),      Limits::lowest(),    Limits::denorm_min()};
  std::vector<T> e(x.size()), t(x.size());
  exp_all(x, e);
  tanh_all(x, t);
  CHECK(e[0] == Limits::infinity());
  CHECK(same_bits(e[1], T(0)));
  CHECK(std::isnan(e[2]));
  CHECK(e[3] == 1);
  CHECK(e[4] == 1);
  CHECK(e[5] == Limits::infinity());
  CHECK(e[6] == 0);
  CHECK(t[0] == 1);
  CHECK(t[1] == -1);
  CHECK(std::isnan(t[2]));
  CHECK(same_bits(t[3], T(0)));
  CHECK(same_bits(t[4], -T(0)));
  CHECK(t[6] == -1);
  CHECK(t[7] == Limits::denorm_min());
}

TEST_CASE_TEMPLATE("a result does not depend on its place in a loop", T, float, double) {
  const auto all = range<T>(T(-9), T(9), 67);
  std::vector<T> e(all.size()), t(all.size());
  exp_all(all, e);
  tanh_all(all, t);
  for (std::size_t begin = 0; begin < all.size(); ++begin) {
    const std::vector<T> x(all.begin() + static_cast<std::ptrdiff_t>(begin), all.end());
    std::vector<T> y(x.size());
    exp_all(x, y);
    CHECK(same_bits(y[0], e[begin]));
    CHECK(std::equal(y.begin(), y.end(), e.begin() + static_cast<std::ptrdiff_t>(begin)));
    tanh_all(x, y);
    CHECK(std::equal(y.begin(), y.end(), t.begin() + static_cast<std::ptrdiff_t>(begin)));
  }
}

TEST_CASE("reductions over lanes") {
  for (const std::int64_t count : {0, 1, 15, 16, 17, 100}) {
    CHECK(kerkis::device::sum_of<double>(count, [](std::int64_t i) { return static_cast<double>(i); }) ==
          static_cast<double>(count * (count - 1)) / 2);
    CHECK(kerkis::device::maximum_of<float>(count, -1.0f,
                                            [=](std::int64_t i) { return static_cast<float>((i * 7) % 13); }) ==
          (count == 0   ? -1.0f
           : count == 1 ? 0.0f
           : count < 13 ? 7.0f
                        : 12.0f));
  }
}
