// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/environment.hpp>
#include <kerkis/version.hpp>

int main(int argc, char** argv) {
  return kerkis::run(argc, argv, [] {
    const kerkis::Communicator world(MPI_COMM_WORLD);
    kerkis::require(world.size() == 2, "two ranks are wanted, not ", world.size());
    const Kokkos::View<int*> ones("ones", 4);
    Kokkos::deep_copy(ones, 1);
    kerkis::all_reduce(Kokkos::DefaultExecutionSpace{}, world, ones).wait();
    const auto sums = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, ones);
    kerkis::require(sums(3) == 2, "the sum of two ones is ", sums(3));
    if (world.rank() == 0)
      std::printf("kerkis %d.%d.%d on two ranks\n", KERKIS_VERSION_MAJOR, KERKIS_VERSION_MINOR, KERKIS_VERSION_PATCH);
  });
}
