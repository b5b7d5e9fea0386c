// SPDX-License-Identifier: Apache-2.0
#include <kerkis_every_comm.hpp>

#include <kerkis/version.hpp>

// Kokkos, MPI and the standard library are all that the headers above include.
#if defined(CBLAS_H) || defined(NLOHMANN_JSON_VERSION_MAJOR) || defined(BOOST_VERSION) ||                              \
    defined(BOOST_ASIO_VERSION) || defined(DOCTEST_VERSION)
#error "kerkis/comm includes more than Kokkos and MPI"
#endif

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  Kokkos::initialize(argc, argv);
  bool right = kerkis::version == kerkis::Version{0, 1, 0};
  {
    const kerkis::Communicator world(MPI_COMM_WORLD);
    const Kokkos::View<double*> values("values", 5);
    Kokkos::deep_copy(values, world.rank() + 1.0);
    kerkis::all_reduce(Kokkos::DefaultExecutionSpace{}, world, values).wait();
    const auto result = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, values);
    right = right && result(4) == world.size() * (world.size() + 1) / 2.0;
  }
  Kokkos::finalize();
  MPI_Finalize();
  return right ? 0 : 1;
}
