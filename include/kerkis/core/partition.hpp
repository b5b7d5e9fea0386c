// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <kerkis/core/macros.hpp>

namespace kerkis {

/// A half-open range of indices.
struct Range {
  std::int64_t begin = 0;  ///< the first
  std::int64_t end = 0;    ///< one behind the last

  /// How many indices it has.
  KERKIS_FUNCTION constexpr std::int64_t size() const { return end - begin; }
  /// Whether `index` is one of them.
  KERKIS_FUNCTION constexpr bool contains(std::int64_t index) const { return index >= begin && index < end; }
  friend constexpr bool operator==(const Range&, const Range&) = default;
};

/// The share of `part` (from 0) when `count` things are spread over `parts`: contiguous, in order, sizes differ by at
/// most one, the larger ones first. Shares are empty when there are more parts than things.
KERKIS_FUNCTION constexpr Range partition(std::int64_t count, std::int64_t parts, std::int64_t part) {
  const std::int64_t least = count / parts;
  const std::int64_t larger = count % parts;
  const std::int64_t begin = part * least + (part < larger ? part : larger);
  return {begin, begin + least + (part < larger ? 1 : 0)};
}

}  // namespace kerkis
