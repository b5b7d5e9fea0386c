// SPDX-License-Identifier: Apache-2.0
// Every rank has a View of numbers; afterwards every rank has their sums, element by element.
//
//     mpiexec -n 4 all_reduce

#include <cstdio>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/environment.hpp>

namespace kk = kerkis;

void example() {
  const kk::Communicator world(MPI_COMM_WORLD);  // works on a duplicate
  const Kokkos::DefaultExecutionSpace execution;
  const Kokkos::View<double*> values("values", 1000);
  Kokkos::deep_copy(execution, values, world.rank() + 1);

  // `execution` is fenced, so that what its kernels have written is there. From here until the request is complete the
  // View belongs to the operation.
  kk::Request request = kk::all_reduce(execution, world, values);
  // … work on something else …
  request.wait();  // throws after 300 s, and says who did not come

  const double expected = world.size() * (world.size() + 1) / 2.0;
  int wrong = 0;
  Kokkos::parallel_reduce(
      "check", Kokkos::RangePolicy<Kokkos::DefaultExecutionSpace>(execution, 0, 1000),
      KOKKOS_LAMBDA(int i, int& count) { count += values(i) == expected ? 0 : 1; }, wrong);
  if (wrong > 0) throw kk::Error(kk::message(wrong, " sums are wrong"));
  if (world.rank() == 0) std::printf("%d ranks: all 1000 sums are %g\n", world.size(), expected);
}

// Starts MPI and Kokkos unless the program has done so, prints an error once, gives the exit status.
int main(int argc, char** argv) { return kk::run(argc, argv, example); }
