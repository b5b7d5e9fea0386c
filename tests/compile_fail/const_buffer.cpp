// SPDX-License-Identifier: Apache-2.0
// EXPECT: this operation writes its View, which must not be const
// EXPECT: the View that receives, the second one, must not be const
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>

#ifdef KERKIS_FAIL
using Element = const float;
#else
using Element = float;
#endif

void operations(const kerkis::Communicator& world, const Kokkos::View<const float*, Kokkos::HostSpace>& from,
                const Kokkos::View<Element*, Kokkos::HostSpace>& to) {
  const Kokkos::DefaultHostExecutionSpace host;
  kerkis::all_reduce(host, world, to);
  kerkis::all_gather(host, world, from, to);
}
