// SPDX-License-Identifier: Apache-2.0
// Elements of every type move, with gaps between them.
#include <doctest/doctest.h>
#include <kerkis/comm/shift.hpp>

#include "views.hpp"

namespace {

using kerkis::Communicator;
using views::Host;

int previous(const Communicator& world) { return (world.rank() + world.size() - 1) % world.size(); }

template <class T>
std::size_t moved_wrongly(const Communicator& world, std::size_t count) {
  const views::Of<T**, Kokkos::LayoutRight> from("from", count, 3), to("to", count, 2);
  views::fill(from, 100);
  views::fill(to, 50);
  const auto column = Kokkos::subview(from, Kokkos::ALL, 1);
  const auto target = Kokkos::subview(to, Kokkos::ALL, 0);
  const auto beside = Kokkos::subview(to, Kokkos::ALL, 1);
  views::fill(beside, 7);
  views::fill(column, static_cast<std::size_t>(world.rank()));
  kerkis::shift(Host(), world, column, target).wait();
  return views::wrong(target, static_cast<std::size_t>(previous(world))) + views::wrong(beside, 7);
}

struct Triple {
  double a, b, c;
};
struct Bytes {
  unsigned char b[3];
};

TEST_CASE("any element, counts 0, 1, odd, large") {
  const Communicator world(MPI_COMM_WORLD);
  for (const std::size_t count : {0u, 1u, 37u, 70'001u}) {
    std::size_t bad = 0;
    const auto move = [&]<class... T>(T...) { bad += (0u + ... + moved_wrongly<T>(world, count)); };
    move(char(), static_cast<signed char>(0), static_cast<unsigned char>(0), short(), static_cast<unsigned short>(0), 0,
         0u, 0l, 0ul, 0ll, 0ull, 0.0f, 0.0, 0.0l, false, Kokkos::complex<float>(), Kokkos::complex<double>(),
         kerkis::float16(), kerkis::bfloat16(), Triple(), Bytes());
    CHECK(bad == 0);
  }
}

}  // namespace
