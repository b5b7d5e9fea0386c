// SPDX-License-Identifier: Apache-2.0
// EXPECT: all_reduce writes its View, which must not be const
// EXPECT: broadcast writes its View, which must not be const
// EXPECT: receive writes its View, which must not be const
// EXPECT: all_gather writes its second View, which must not be const
// EXPECT: reduce_scatter writes its second View, which must not be const
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/reduce_scatter.hpp>

#ifdef KERKIS_FAIL
using Element = const float;
#else
using Element = float;
#endif

void operations(const kerkis::Communicator& world, const Kokkos::View<const float*, Kokkos::HostSpace>& from,
                const Kokkos::View<Element*, Kokkos::HostSpace>& to) {
  const Kokkos::DefaultHostExecutionSpace host;
  kerkis::send(host, world, from, {.to = 1});
  kerkis::all_reduce(host, world, to);
  kerkis::broadcast(host, world, to);
  kerkis::receive(host, world, to, {.from = 1});
  kerkis::all_gather(host, world, from, to);
  kerkis::reduce_scatter(host, world, from, to);
}
