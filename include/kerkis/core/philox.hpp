// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

#include <kerkis/core/macros.hpp>

namespace kerkis {

/// Philox4x32-10: Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3". A pure function from
/// a 128-bit counter and a 64-bit key to 128 random bits, so that a number depends on what it is for and never on who
/// draws it.
KERKIS_FUNCTION constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                                  std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter[2];
    counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(product1),
               static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(product0)};
    key[0] += 0x9E3779B9u;
    key[1] += 0xBB67AE85u;
  }
  return counter;
}

/// Random numbers by (seed, stream, step, global element index). `stream` tells purposes apart (one per parameter, per
/// dropout layer, …); see `stream_of`. Copyable into kernels.
class Random {
 public:
  /// `step`: of the optimizer; 0 for what is drawn once, such as initial values.
  KERKIS_FUNCTION constexpr Random(std::uint64_t seed, std::uint32_t stream, std::uint32_t step = 0)
      : key_{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}, stream_(stream), step_(step) {}

  /// 32 random bits for element `index`. Four neighbours share one evaluation: see `block`.
  KERKIS_FUNCTION constexpr std::uint32_t bits(std::uint64_t index) const { return block(index / 4)[index % 4]; }

  /// The bits of the elements 4·index … 4·index + 3.
  KERKIS_FUNCTION constexpr std::array<std::uint32_t, 4> block(std::uint64_t index) const {
    return philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), step_, stream_},
                      key_);
  }

  /// Uniform in [0, 1): a multiple of 2^-32, the same bits everywhere.
  KERKIS_FUNCTION constexpr double uniform(std::uint64_t index) const { return bits(index) * 0x1p-32; }

  /// Uniform integer in [0, bound) by multiplication; its bias is at most bound / 2^64.
  constexpr std::uint64_t below(std::uint64_t bound, std::uint64_t index) const {
    const auto words = block(index);
    const std::uint64_t random = (std::uint64_t{words[0]} << 32) | words[1];
    // The high 64 bits of random · bound, from halves.
    const std::uint64_t low = (random & 0xFFFFFFFFu) * (bound & 0xFFFFFFFFu);
    const std::uint64_t middle1 = (random >> 32) * (bound & 0xFFFFFFFFu) + (low >> 32);
    const std::uint64_t middle2 = (random & 0xFFFFFFFFu) * (bound >> 32) + (middle1 & 0xFFFFFFFFu);
    return (random >> 32) * (bound >> 32) + (middle1 >> 32) + (middle2 >> 32);
  }

  /// Standard normal for element `index`, by Box and Muller. Host only: a device's logarithm may round differently.
  double normal(std::uint64_t index) const {
    const auto words = block(index / 2);
    const std::size_t pair = 2 * (index % 2);
    const double radius = std::sqrt(-2 * std::log((words[pair] + 0.5) * 0x1p-32));
    return radius * std::cos(2 * std::numbers::pi * (words[pair + 1] * 0x1p-32));
  }

 private:
  std::array<std::uint32_t, 2> key_;
  std::uint32_t stream_;
  std::uint32_t step_;
};

/// A stream number from a name (FNV-1a, 32 bits), so that a parameter draws the same numbers wherever it lies.
constexpr std::uint32_t stream_of(std::string_view name) {
  std::uint32_t hash = 2166136261u;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
  return hash;
}

}  // namespace kerkis
