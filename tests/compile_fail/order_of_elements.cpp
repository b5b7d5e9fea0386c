// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: the two Views of an operation order their elements alike
#include <kerkis/comm/all_to_all.hpp>

#if KERKIS_MISTAKE == 1
using Layout = Kokkos::LayoutLeft;
#else
using Layout = Kokkos::LayoutRight;
#endif

void operations(const kerkis::Communicator& world,
                const Kokkos::View<float**, Kokkos::LayoutRight, Kokkos::HostSpace>& rows,
                const Kokkos::View<float**, Layout, Kokkos::HostSpace>& other) {
  kerkis::all_to_all(Kokkos::DefaultHostExecutionSpace(), world, rows, other);
}
