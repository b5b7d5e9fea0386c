// SPDX-License-Identifier: Apache-2.0
// EXPECT: this operation takes Views of float, double or integers
// EXPECT: all_gather takes two Views of one element type
// EXPECT: reduce_scatter takes two Views of one element type
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/reduce_scatter.hpp>

#ifdef KERKIS_FAIL
using Odd = bool;
using Other = double;
#else
using Odd = unsigned char;
using Other = float;
#endif

void operations(const kerkis::Communicator& world, const Kokkos::View<Odd*, Kokkos::HostSpace>& odd,
                const Kokkos::View<float*, Kokkos::HostSpace>& from,
                const Kokkos::View<Other*, Kokkos::HostSpace>& to) {
  const Kokkos::DefaultHostExecutionSpace host;
  kerkis::all_reduce(host, world, odd);
  kerkis::all_gather(host, world, from, to);
  kerkis::reduce_scatter(host, world, from, to);
}
