// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace kerkis::comm {

/// Where the elements of a View lie, in the order in which they go to other ranks, the fastest dimension first.
/// Dimensions that follow each other without a gap are one; there is always a first. Strides are in elements.
struct Shape {
  int rank = 1;
  std::size_t extent[8] = {1, 1, 1, 1, 1, 1, 1, 1};
  std::size_t stride[8] = {1, 0, 0, 0, 0, 0, 0, 0};

  bool operator==(const Shape&) const = default;

  /// Whether the elements lie in memory in that order, without gaps.
  bool is_run() const { return rank == 1 && stride[0] == 1; }
};

}  // namespace kerkis::comm
