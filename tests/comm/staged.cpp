// SPDX-License-Identifier: Apache-2.0
// The path of device memory, forced on host Views: everything goes through buffers, long messages piece by piece.
#include <doctest/doctest.h>
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/shift.hpp>

#include "views.hpp"

namespace {

using kerkis::Communicator;
using views::Host;

std::size_t previous(const Communicator& world) {
  return static_cast<std::size_t>((world.rank() + world.size() - 1) % world.size());
}

TEST_CASE("hand-offs through buffers") {
  for (const std::size_t largest : {std::size_t{1} << 30, std::size_t{7}}) {
    const Communicator world(MPI_COMM_WORLD, "world", {.largest_count = largest, .stage = true});
    std::size_t bad = 0;
    views::some<double>([&](const auto& view, const auto& whole) {
      views::fill(whole, 900);
      const views::Of<double*, Kokkos::LayoutRight> run("run", view.size());
      views::fill(run, static_cast<std::size_t>(world.rank()));
      kerkis::shift(Host(), world, run, view).wait();
      bad += views::wrong(view, previous(world));
      if (world.size() == 1) return;
      views::fill(view, static_cast<std::size_t>(world.rank()));
      auto request = kerkis::receive(Host(), world, run, {.from = static_cast<int>(previous(world))});
      kerkis::send(Host(), world, view, {.to = (world.rank() + 1) % world.size()}).wait();
      request.wait();
      bad += views::wrong(run, previous(world));
    });
    CHECK(bad == 0);
  }
}

TEST_CASE("more than one buffer holds") {
  const Communicator world(MPI_COMM_WORLD, "world", {.stage = true});
  for (const std::size_t rows : {std::size_t{524'288}, std::size_t{1'500'001}}) {
    const views::Of<double**, Kokkos::LayoutRight> from("from", rows, 2), to("to", rows, 2);
    const auto out = Kokkos::subview(from, Kokkos::ALL, 0), in = Kokkos::subview(to, Kokkos::ALL, 1);
    views::fill(out, static_cast<std::size_t>(world.rank()));
    kerkis::shift(Host(), world, out, in).wait();
    CHECK(views::wrong(in, previous(world)) == 0);
    if (world.size() == 1) continue;
    auto request = kerkis::receive(Host(), world, in, {.from = static_cast<int>(previous(world))});
    views::fill(in, 17);
    kerkis::send(Host(), world, out, {.to = (world.rank() + 1) % world.size()}).wait();
    request.wait();
    CHECK(views::wrong(in, previous(world)) == 0);
  }
}

TEST_CASE("collectives through buffers") {
  const Communicator world(MPI_COMM_WORLD, "world", {.stage = true});
  const views::Of<int*, Kokkos::LayoutRight> view("view", 31);
  views::fill(view, 1);
  kerkis::all_reduce(Host(), world, view).wait();
  std::size_t bad = 0;
  for (std::size_t i = 0; i < 31; ++i) bad += view(i) == world.size() * views::element<int>(i + 1) ? 0u : 1u;
  views::fill(view, static_cast<std::size_t>(world.rank()));
  kerkis::broadcast(Host(), world, view, {.root = world.size() - 1}).wait();
  bad += views::wrong(view, static_cast<std::size_t>(world.size() - 1));
  const views::Of<int**, Kokkos::LayoutRight> all("all", world.size(), 31);
  views::fill(view, static_cast<std::size_t>(world.rank()));
  kerkis::all_gather(Host(), world, view, all).wait();
  for (int rank = 0; rank < world.size(); ++rank)
    bad += views::wrong(Kokkos::subview(all, rank, Kokkos::ALL), static_cast<std::size_t>(rank));
  CHECK(bad == 0);
}

}  // namespace
