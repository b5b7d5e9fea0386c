// SPDX-License-Identifier: Apache-2.0
// EXPECT: the functor of a reduction is empty and default-constructible
// EXPECT: the functor of a reduction says whether it commutes
// EXPECT: the functor of a reduction makes one element of two
#include <kerkis/comm/all_reduce.hpp>

struct Least {
  static constexpr bool commutes = true;
  int operator()(int a, int b) const { return a < b ? a : b; }
};

#ifdef KERKIS_FAIL
struct WithState : Least {
  int most;
};
struct Silent {
  int operator()(int a, int b) const { return a < b ? a : b; }
};
struct OfOne {
  static constexpr bool commutes = true;
  int operator()(int a) const { return a; }
};
#else
using WithState = Least;
using Silent = Least;
using OfOne = Least;
#endif

void operations(const kerkis::Communicator& world, const Kokkos::View<int*, Kokkos::HostSpace>& view) {
  const Kokkos::DefaultHostExecutionSpace host;
  kerkis::all_reduce<WithState>(host, world, view);
  kerkis::all_reduce<Silent>(host, world, view);
  kerkis::all_reduce<OfOne>(host, world, view);
}
