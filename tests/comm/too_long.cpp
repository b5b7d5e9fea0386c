// SPDX-License-Identifier: Apache-2.0
// Messages that are longer than the View that receives them, and long ones that never come.
#include <doctest/doctest.h>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/hand_off.hpp>

#include <string>

#include "views.hpp"

namespace {

using kerkis::CommError;
using kerkis::Communicator;
using views::Host;

TEST_CASE("a longer message is an error that says so") {
  for (const bool pieces : {false, true}) {
    const Communicator world(MPI_COMM_WORLD, "world", {.largest_count = pieces ? 4u : 1000u});
    if (world.size() == 1) return;
    const views::Of<float*, Kokkos::LayoutRight> nine("nine", 9), five("five", 5);
    std::string text;
    try {
      if (world.rank() == 0)
        kerkis::send(Host(), world, nine, {.to = 1}).wait();
      else if (world.rank() == 1)
        kerkis::receive(Host(), world, five, {.from = 0}).wait();
      kerkis::barrier(world).wait();
      kerkis::barrier(world).wait();
    } catch (const CommError& error) {
      text = error.what();
    }
    CHECK(text.find("of 5 float from rank 0 over 'world'") != std::string::npos);
    CHECK(text.find(pieces ? "rank 0 has sent 9 elements, more than the 5 of the View"
                           : "the message is longer than what was to receive it") != std::string::npos);
    CHECK(world.poisoned());
  }
}

// Here, since UCX leaks what it has for a withdrawn receive of an MPI type with gaps.
TEST_CASE("a receive in pieces is withdrawn") {
  const Communicator world(MPI_COMM_WORLD, "world", {.largest_count = 10});
  const views::Of<float**, Kokkos::LayoutRight> to("to", 35, 2);
  const auto column = Kokkos::subview(to, Kokkos::ALL, 1);
  kerkis::Request request =
      kerkis::receive(Host(), world, column, {.from = (world.rank() + 1) % world.size(), .tag = 9});
  CHECK_FALSE(request.test());
  CHECK(request.cancel());
  CHECK_FALSE(request.pending());
}

}  // namespace
