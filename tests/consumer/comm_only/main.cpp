// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/version.hpp>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Kokkos::initialize(argc, argv);
  bool right = kerkis::version == kerkis::Version{0, 1, 0};
  {
    const kerkis::Communicator world(MPI_COMM_WORLD);
    const Kokkos::View<double*> values("values", 5);
    Kokkos::deep_copy(values, world.rank() + 1.0);
    kerkis::all_reduce(Kokkos::DefaultExecutionSpace{}, world, values).wait();
    double total = 0;
    Kokkos::parallel_reduce(5, KOKKOS_LAMBDA(int i, double& sum) { sum += values(i); }, total);
    right = right && total == 5 * (world.size() * (world.size() + 1) / 2);
  }
  Kokkos::finalize();
  MPI_Finalize();
  return right ? 0 : 1;
}
