// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: the functor of a reduction is empty and default-constructible
// EXPECT 2: the functor of a reduction says whether it commutes
// EXPECT 3: the functor of a reduction makes one element of two
// EXPECT 4: the functor of a reduction is empty and default-constructible
#include <kerkis/comm/all_reduce.hpp>

struct Least {
#if KERKIS_MISTAKE == 1
  int most;  // MPI operations carry no state
#endif
#if KERKIS_MISTAKE == 4
  explicit Least(int);  // MPI calls it without an object
#endif
#if KERKIS_MISTAKE != 2
  static constexpr bool commutes = true;
#endif
#if KERKIS_MISTAKE == 3
  int operator()(int a) const { return a; }
#else
  int operator()(int a, int b) const { return a < b ? a : b; }
#endif
};

void operation(const kerkis::Communicator& world, const Kokkos::View<int*, Kokkos::HostSpace>& view) {
  kerkis::all_reduce<Least>(Kokkos::DefaultHostExecutionSpace(), world, view);
}
