// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <string>

namespace kerkis {

/// Rows of tokens (or samples), columns of features, row-major: what layers hand to each other.
template <class T, class ExecutionSpace = Kokkos::DefaultExecutionSpace>
using Matrix = Kokkos::View<T**, Kokkos::LayoutRight, typename ExecutionSpace::memory_space>;

/// A contiguous array.
template <class T, class ExecutionSpace = Kokkos::DefaultExecutionSpace>
using Vector = Kokkos::View<T*, typename ExecutionSpace::memory_space>;

/// An uninitialised matrix.
template <class T, class ExecutionSpace>
Matrix<T, ExecutionSpace> make_matrix(const char* label, std::int64_t rows, std::int64_t columns) {
  return Matrix<T, ExecutionSpace>(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string(label)),
                                   static_cast<std::size_t>(rows), static_cast<std::size_t>(columns));
}

/// The first `rows` rows, as an unmanaged view: no reference is counted, so it costs nothing; the matrix must outlive
/// it.
template <class T, class... Properties>
auto first_rows(const Kokkos::View<T**, Properties...>& matrix, std::int64_t rows) {
  using View = Kokkos::View<T**, Kokkos::LayoutRight, typename Kokkos::View<T**, Properties...>::memory_space>;
  return View(matrix.data(), static_cast<std::size_t>(rows), matrix.extent(1));
}

}  // namespace kerkis
