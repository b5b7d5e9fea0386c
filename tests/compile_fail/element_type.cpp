// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: a reduction of elements that are no numbers takes a functor
// EXPECT 2: the two Views of an operation have one element type
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>

#include <type_traits>

struct Pair {
  float value;
  int place;
};

template <int mistake, class Wrong>
using View = Kokkos::View<std::conditional_t<KERKIS_MISTAKE == mistake, Wrong, float>*, Kokkos::HostSpace>;

void operations(const kerkis::Communicator& world, const View<0, float>& from, const View<1, Pair>& summed,
                const View<2, double>& to) {
  const Kokkos::DefaultHostExecutionSpace host;
  kerkis::all_reduce(host, world, summed);
  kerkis::all_gather(host, world, from, to);
}
