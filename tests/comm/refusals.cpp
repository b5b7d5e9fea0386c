// SPDX-License-Identifier: Apache-2.0
// Wrong input is refused with the numbers in the message, before anything is sent: the communicator stays usable.
#include <doctest/doctest.h>
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/reduce_scatter.hpp>

#include <string>

namespace {

using kerkis::Communicator;
using kerkis::InputError;
using Host = Kokkos::DefaultHostExecutionSpace;
using View = Kokkos::View<float*, Kokkos::HostSpace>;

TEST_CASE("Views with gaps") {
  const Host host;
  const Communicator world(MPI_COMM_WORLD);
  const Kokkos::View<float**, Kokkos::LayoutRight, Kokkos::HostSpace> matrix("table", 4, 6);
  const auto gaps = Kokkos::subview(matrix, Kokkos::ALL, 1);
  const View four("four", 4);
  const std::string words = " takes contiguous Views; 'table' has gaps";
  const int peer = world.rank() == 0 ? 1 : 0;
  CHECK_THROWS_WITH_AS(kerkis::all_reduce(host, world, gaps), ("all_reduce" + words).c_str(), InputError);
  CHECK_THROWS_WITH_AS(kerkis::broadcast(host, world, gaps), ("broadcast" + words).c_str(), InputError);
  CHECK_THROWS_WITH_AS(kerkis::all_gather(host, world, gaps, four), ("all_gather" + words).c_str(), InputError);
  CHECK_THROWS_WITH_AS(kerkis::all_gather(host, world, four, gaps), ("all_gather" + words).c_str(), InputError);
  CHECK_THROWS_WITH_AS(kerkis::reduce_scatter(host, world, four, gaps), ("reduce_scatter" + words).c_str(), InputError);
  if (world.size() > 1) {
    CHECK_THROWS_WITH_AS(kerkis::send(host, world, gaps, {.to = peer}), ("send" + words).c_str(), InputError);
    CHECK_THROWS_WITH_AS(kerkis::receive(host, world, gaps, {.from = peer}), ("receive" + words).c_str(), InputError);
  }
  CHECK_NOTHROW(kerkis::all_reduce(host, world, four).wait());
}

TEST_CASE("sizes that do not match") {
  const Host host;
  const Communicator world(MPI_COMM_WORLD);
  const auto ranks = static_cast<std::size_t>(world.size());
  const View three("three", 3), wrong("wrong", 3 * ranks + 1);
  CHECK_THROWS_WITH_AS(
      kerkis::all_gather(host, world, three, wrong),
      kerkis::message("all_gather over ", ranks, " ranks: blocks of 3 elements do not fill ", 3 * ranks + 1).c_str(),
      InputError);
  CHECK_THROWS_WITH_AS(
      kerkis::reduce_scatter(host, world, wrong, three),
      kerkis::message("reduce_scatter over ", ranks, " ranks: ", 3 * ranks + 1, " elements do not make blocks of 3")
          .c_str(),
      InputError);
  CHECK_NOTHROW(kerkis::all_reduce(host, world, three).wait());
}

TEST_CASE("roots and peers that are no ranks") {
  const Host host;
  const Communicator world(MPI_COMM_WORLD, "grid");
  const View view("view", 2);
  for (const int nobody : {-1, world.size()}) {
    CHECK_THROWS_WITH_AS(
        kerkis::broadcast(host, world, view, {.root = nobody}),
        kerkis::message("broadcast: root ", nobody, " is none of the ", world.size(), " ranks").c_str(), InputError);
  }
  for (const int nobody : {-1, world.size(), world.rank()}) {
    CHECK_THROWS_WITH_AS(kerkis::send(host, world, view, {.to = nobody}),
                         kerkis::message("send: ", nobody, " is no other rank of 'grid'").c_str(), InputError);
    CHECK_THROWS_WITH_AS(kerkis::receive(host, world, view, {.from = nobody}),
                         kerkis::message("receive: ", nobody, " is no other rank of 'grid'").c_str(), InputError);
  }
  CHECK_NOTHROW(kerkis::all_reduce(host, world, view).wait());
}

}  // namespace
