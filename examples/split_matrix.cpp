// SPDX-License-Identifier: Apache-2.0
// Tensor parallelism by hand: y = B · relu(A · x) with the rows of A and the columns of B spread over the ranks. No
// rank holds a whole matrix, and one sum per pair of matrices is all that is communicated. nn::Linear does the same,
// with its backward pass: Split::output for A, Split::input for B.
//
//     mpiexec -n 3 split_matrix

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/environment.hpp>
#include <kerkis/core/partition.hpp>

namespace kk = kerkis;
using Space = Kokkos::DefaultExecutionSpace;
using Matrix = Kokkos::View<double**, Kokkos::LayoutRight>;
using Vector = Kokkos::View<double*>;

constexpr int width = 64, hidden = 250;  // over 4 ranks: 63, 63, 62 and 62

/// y = M · x, or relu(M · x).
void multiply(const Space& execution, const Matrix& matrix, const Vector& x, const Vector& y, bool relu) {
  const auto columns = matrix.extent(1);
  Kokkos::parallel_for(
      "multiply", Kokkos::RangePolicy<Space>(execution, 0, matrix.extent(0)), KOKKOS_LAMBDA(std::size_t row) {
        double sum = 0;
        for (std::size_t column = 0; column < columns; ++column) sum += matrix(row, column) * x(column);
        y(row) = relu && sum < 0 ? 0 : sum;
      });
}

/// The block of a matrix whose first element is (row, column) of the whole.
Matrix block(const Space& execution, std::int64_t row, std::int64_t column, std::int64_t rows, std::int64_t columns) {
  const Matrix matrix("matrix", static_cast<std::size_t>(rows), static_cast<std::size_t>(columns));
  Kokkos::parallel_for(
      "fill", Kokkos::MDRangePolicy<Space, Kokkos::Rank<2>>(execution, {0, 0}, {rows, columns}),
      KOKKOS_LAMBDA(std::int64_t r, std::int64_t c) {
        matrix(r, c) = Kokkos::sin(static_cast<double>(3 * (row + r) + 7 * (column + c))) / width;
      });
  return matrix;
}

double product(const kk::Communicator& ranks) {
  const Space execution;
  const kk::Range mine = kk::partition(hidden, ranks.size(), ranks.rank());
  const Matrix a = block(execution, mine.begin, 0, mine.size(), width),
               b = block(execution, 0, mine.begin, width, mine.size());
  const Vector x("x", width), h("h", static_cast<std::size_t>(mine.size())), y("y", width);
  Kokkos::deep_copy(execution, x, 1);
  multiply(execution, a, x, h, true);   // this rank's share of the hidden elements, whole
  multiply(execution, b, h, y, false);  // all of y, but only what this share adds to it
  kk::all_reduce(execution, ranks, y).wait();
  const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), y);
  double sum = 0;
  for (int i = 0; i < width; ++i) sum += host(i) * host(i);
  return std::sqrt(sum);
}

void example() {
  const kk::Communicator world(MPI_COMM_WORLD);
  const double ours = product(world), alone = product(kk::Communicator());
  if (std::abs(ours - alone) > 1e-12 * alone) throw kk::Error(kk::message("|y| is ", ours, ", alone it is ", alone));
  if (world.rank() == 0) std::printf("%d ranks: |y| is %.12f, as on one\n", world.size(), ours);
}

int main(int argc, char** argv) { return kk::run(argc, argv, example); }
