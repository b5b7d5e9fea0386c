// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include <kerkis/device/launch.hpp>

namespace kerkis::device {
namespace detail {

template <class T>
struct ColumnSums {
  std::int64_t rows, columns;
  const T* values;
  T* sums;

  KOKKOS_FUNCTION void operator()(std::int64_t block) const {
    const std::int64_t begin = block * column_block;
    const std::int64_t count = columns - begin < column_block ? columns - begin : column_block;
    T sum[column_block];
    for (std::int64_t i = 0; i < count; ++i) sum[i] = T(0);
    const T* v = values + begin;
    std::int64_t row = 0;
    for (; row + 4 <= rows; row += 4, v += 4 * columns)
      for (std::int64_t i = 0; i < count; ++i)
        sum[i] += (v[i] + v[columns + i]) + (v[2 * columns + i] + v[3 * columns + i]);
    for (; row < rows; ++row, v += columns)
      for (std::int64_t i = 0; i < count; ++i) sum[i] += v[i];
    for (std::int64_t i = 0; i < count; ++i) sums[begin + i] += sum[i];
  }
};

}  // namespace detail

/// sums += the sum over the contiguous rows of `values`, in an order that does not depend on the number of threads.
template <class ExecutionSpace, class T>
void add_column_sums(const ExecutionSpace& execution, std::int64_t rows, std::int64_t columns, const T* values,
                     T* sums) {
  if (rows > 0)
    launch("kerkis::columns", execution, column_blocks(columns), detail::ColumnSums<T>{rows, columns, values, sums});
}

}  // namespace kerkis::device
