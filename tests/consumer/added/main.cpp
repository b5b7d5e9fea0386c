// SPDX-License-Identifier: Apache-2.0
// Owns MPI, Kokkos, a communicator and an execution-space instance; kerkis works on them and leaves them as they were.
#include <mpi.h>

#include <cstdio>
#include <optional>

#include <Kokkos_Core.hpp>

#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/device/gemm.hpp>
#include <kerkis/mesh/mesh.hpp>
#include <kerkis/policy/data_parallel.hpp>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Kokkos::initialize(argc, argv);
  MPI_Comm mine;
  MPI_Comm_dup(MPI_COMM_WORLD, &mine);
  int ranks = 0, unchanged = 0;
  MPI_Comm_size(mine, &ranks);
  bool right = true;
  {
    const Kokkos::DefaultHostExecutionSpace execution;
    const Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace> matrix("matrix", 2, 2), square("square", 2, 2);
    Kokkos::deep_copy(execution, matrix, 1.0);
    std::optional<kerkis::Mesh<kerkis::DataParallel<>>> mesh(mine);
    kerkis::all_reduce(execution, mesh->communicator<kerkis::axis::Data>(), matrix).wait();
    right = mesh->extent<kerkis::axis::Data>() == ranks;
    mesh.reset();
    // The View outlives what worked on it.
    kerkis::device::gemm(Kokkos::DefaultHostExecutionSpace{}, kerkis::device::Transpose::no,
                         kerkis::device::Transpose::no, 2, 2, 2, 1.0, matrix.data(), 2, matrix.data(), 2, 0.0,
                         square.data(), 2);
    right = right && square(1, 1) == 2.0 * ranks * ranks;
  }
  MPI_Comm_compare(mine, MPI_COMM_WORLD, &unchanged);
  right = right && unchanged == MPI_CONGRUENT && Kokkos::is_initialized();
  MPI_Comm_free(&mine);
  Kokkos::finalize();
  int finalized = 0;
  MPI_Finalized(&finalized);
  right = right && !finalized;
  MPI_Finalize();
  if (!right) std::puts("kerkis changed what is not its own, or summed wrongly");
  return right ? 0 : 1;
}
