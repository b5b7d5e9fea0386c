// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <kerkis/core/philox.hpp>

#include <array>
#include <cmath>
#include <limits>
#include <set>
#include <vector>

namespace {

using kerkis::philox4x32;
using kerkis::Random;
using Words = std::array<std::uint32_t, 4>;

// The known answers that Random123 publishes for philox4x32-10.
static_assert(philox4x32({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}) ==
              Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
              Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

TEST_CASE("Philox gives the published numbers at run time too") {
  volatile std::uint32_t zero = 0;
  CHECK(philox4x32({zero, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
}

TEST_CASE("each of seed, stream, step and index makes other bits") {
  const std::uint64_t high = std::uint64_t{1} << 32;
  const std::set<std::uint32_t> first = {
      Random(1, 2, 3).bits(4), Random(2, 2, 3).bits(4), Random(1 + high, 2, 3).bits(4),    Random(1, 3, 3).bits(4),
      Random(1, 2, 4).bits(4), Random(1, 2, 3).bits(5), Random(1, 2, 3).bits(4 + 4 * high)};
  CHECK(first.size() == 7);
  for (std::uint64_t i = 0; i < 8; ++i) CHECK(Random(1, 2, 3).bits(i) == Random(1, 2, 3).block(i / 4)[i % 4]);
}

TEST_CASE("uniform numbers are uniform") {
  constexpr int count = 1 << 18, bins = 64;
  const Random random(7, 1);
  std::array<int, bins> histogram{};
  double sum = 0, squares = 0, neighbours = 0, before = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double u = random.uniform(i);
    CHECK_MESSAGE((u >= 0 && u < 1), u);
    ++histogram.at(static_cast<std::size_t>(u * bins));
    sum += u;
    squares += u * u;
    neighbours += (u - 0.5) * (before - 0.5);
    before = u;
  }
  CHECK(std::abs(sum / count - 0.5) < 5 * std::sqrt(1. / 12 / count));
  CHECK(std::abs(squares / count - 1. / 3) < 5 * std::sqrt(4. / 45 / count));
  CHECK(std::abs(neighbours / count) < 5. / 12 / std::sqrt(count));
  double chi_squared = 0;
  for (const int n : histogram) chi_squared += std::pow(n - count / bins, 2) / (count / bins);
  CHECK(chi_squared > 25);  // 63 degrees of freedom: both limits are about five deviations off
  CHECK(chi_squared < 125);
}

TEST_CASE("normal numbers are normal") {
  constexpr int count = 1 << 18;
  const Random random(7, 2);
  std::array<double, 5> moments{};
  int beyond2 = 0;
  double pairs = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const double x = random.normal(i);
    for (int k = 1; k <= 4; ++k) moments.at(static_cast<std::size_t>(k)) += std::pow(x, k) / count;
    beyond2 += std::abs(x) > 2;
    if (i % 2 == 1) pairs += x * random.normal(i - 1);
  }
  const double deviation = 1 / std::sqrt(count);
  CHECK(std::abs(moments[1]) < 5 * deviation);
  CHECK(std::abs(moments[2] - 1) < 5 * std::sqrt(2) * deviation);
  CHECK(std::abs(moments[3]) < 5 * std::sqrt(15) * deviation);
  CHECK(std::abs(moments[4] - 3) < 5 * std::sqrt(96) * deviation);
  CHECK(std::abs(beyond2 * 1. / count - 0.0455) < 5 * 0.21 * deviation);
  CHECK(std::abs(pairs / count) < 5 * deviation);
}

TEST_CASE("below is uniform and stays below") {
  const Random random(7, 3);
  for (const std::uint64_t bound : {std::uint64_t{1}, std::uint64_t{2}, std::uint64_t{7}, std::uint64_t{257}}) {
    constexpr int count = 40'000;
    std::vector<int> histogram(bound);
    for (std::uint64_t i = 0; i < count; ++i) ++histogram.at(random.below(bound, i));
    const double expected = count / static_cast<double>(bound);
    for (const int n : histogram) CHECK(std::abs(n - expected) <= 5 * std::sqrt(expected));
  }
}

TEST_CASE("below is the high half of a product of 128 bits") {
  __extension__ using Wide = unsigned __int128;
  const Random random(7, 4);
  for (const std::uint64_t bound : {std::uint64_t{3}, std::uint64_t{0xffffffff}, std::uint64_t{0x123456789abcdef1},
                                    std::numeric_limits<std::uint64_t>::max()}) {
    for (std::uint64_t i = 0; i < 1000; ++i) {
      const auto words = random.block(i);
      const std::uint64_t bits = (std::uint64_t{words[0]} << 32) | words[1];
      CHECK(random.below(bound, i) == static_cast<std::uint64_t>(Wide{bits} * bound >> 64));
    }
  }
}

TEST_CASE("a stream's number is the FNV-1a hash of its name") {
  static_assert(kerkis::stream_of("") == 0x811c9dc5);
  static_assert(kerkis::stream_of("a") == 0xe40c292c);
  static_assert(kerkis::stream_of("foobar") == 0xbf9cf968);
}

}  // namespace
