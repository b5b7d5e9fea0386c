// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/hand_off.hpp>

#include <chrono>

namespace {

/// The seconds that `f` takes on this rank.
template <class F>
double seconds(F&& f) {
  const auto start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// More ranks than cores are slow, not hopeless: a wait that never gives its core away takes milliseconds for each of
// these.
TEST_CASE("small operations on more ranks than cores") {
  const Kokkos::DefaultHostExecutionSpace host;
  const kerkis::Communicator world(MPI_COMM_WORLD);
  const Kokkos::View<float*, Kokkos::HostSpace> view("view", 16);
  const double reductions = seconds([&] {
    for (int i = 0; i < 200; ++i) kerkis::all_reduce(host, world, view).wait();
  });
  const double ring = seconds([&] {
    if (world.size() == 1) return;
    const int next = (world.rank() + 1) % world.size(), last = (world.rank() + world.size() - 1) % world.size();
    const Kokkos::View<float*, Kokkos::HostSpace> incoming("incoming", 16);
    for (int i = 0; i < 200; ++i) {
      auto sent = kerkis::send(host, world, view, {.to = next});
      kerkis::receive(host, world, incoming, {.from = last}).wait();
      sent.wait();
    }
  });
  if (world.rank() == 0)
    MESSAGE("200 all_reduces: " << reductions << " s, 200 hand-offs round the ring: " << ring << " s");
  CHECK(reductions < 2);
  CHECK(ring < 2);
}

// The others compute on the same cores.
TEST_CASE("a communicator of a few of many ranks knows that they share cores, as far as the launcher tells") {
  const kerkis::Communicator world(MPI_COMM_WORLD);
  MPI_Comm half = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world.rank() / 2, 0, &half);
  {
    const kerkis::Communicator some(half, "half");
    if (kerkis::comm::ranks_by_launcher() == world.size())
      CHECK(some.options().wait.spins == world.options().wait.spins);
    else
      MESSAGE("skipped: the launcher does not tell, or there are other hosts");
  }
  MPI_Comm_free(&half);
}

}  // namespace
