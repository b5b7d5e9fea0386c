// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: communication takes Kokkos Views
#include <kerkis/comm/hand_off.hpp>

#include <vector>

#if KERKIS_MISTAKE == 1
using Buffer = std::vector<float>;
#else
using Buffer = Kokkos::View<float*, Kokkos::HostSpace>;
#endif

void operations(const kerkis::Communicator& world, const Buffer& buffer) {
  kerkis::send(Kokkos::DefaultHostExecutionSpace(), world, buffer, {.to = 1});
}
