// SPDX-License-Identifier: Apache-2.0
// EXPECT: a reduction of elements that are no numbers takes a functor
// EXPECT: the two Views of an operation have one element type
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/scan.hpp>

struct Pair {
  float value;
  int place;
};

#ifdef KERKIS_FAIL
using Summed = Pair;
using Other = double;
#else
using Summed = float;
using Other = float;
#endif

void operations(const kerkis::Communicator& world, const Kokkos::View<Summed*, Kokkos::HostSpace>& summed,
                const Kokkos::View<float*, Kokkos::HostSpace>& from,
                const Kokkos::View<Other*, Kokkos::HostSpace>& to) {
  const Kokkos::DefaultHostExecutionSpace host;
  kerkis::scan(host, world, summed);
  kerkis::all_gather(host, world, from, to);
}
