// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: this operation writes its View, which must not be const
// EXPECT 2: the View that receives, the second one, must not be const
// EXPECT 3: this operation writes its View, which must not be const
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/hand_off.hpp>

#include <type_traits>

template <int mistake>
using View = Kokkos::View<std::conditional_t<KERKIS_MISTAKE == mistake, const float, float>*, Kokkos::HostSpace>;

void operations(const kerkis::Communicator& world, const Kokkos::View<const float*, Kokkos::HostSpace>& from,
                const View<1>& summed, const View<2>& gathered, const View<3>& received) {
  const Kokkos::DefaultHostExecutionSpace host;
  kerkis::all_reduce(host, world, summed);
  kerkis::all_gather(host, world, from, gathered);
  kerkis::receive(host, world, received, {.from = 1});
}
