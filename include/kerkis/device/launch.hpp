// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

namespace kerkis::device {

/// Calls kernel(i) for i in [0, count), in parallel on `execution`; asynchronous where the space is. A call should be a
/// row (or a block of columns) with loops over raw pointers inside: a launch over single elements is several times
/// slower on CPUs.
template <class ExecutionSpace, class Kernel>
void launch(const char* label, const ExecutionSpace& execution, std::int64_t count, const Kernel& kernel) {
  if (count > 0)
    Kokkos::parallel_for(
        label, Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(execution, 0, count), kernel);
}

/// Work on columns is cut into blocks of this width whatever the number of threads, so that sums over rows have one
/// order.
inline constexpr std::int64_t column_block = 128;

/// How many such blocks there are.
constexpr std::int64_t column_blocks(std::int64_t columns) { return (columns + column_block - 1) / column_block; }

}  // namespace kerkis::device
