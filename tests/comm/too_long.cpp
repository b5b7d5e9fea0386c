// SPDX-License-Identifier: Apache-2.0
// Messages that are longer than the View that receives them, and long ones that never come.
#include <doctest/doctest.h>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/hand_off.hpp>

#include <string>

#include "thrown.hpp"
#include "views.hpp"

namespace {

using kerkis::CommError;
using kerkis::Communicator;
using views::Host;

/// What all ranks throw when rank 0 sends `from`, and rank 1 receives it in `to`, where it does not fit.
template <class From, class To>
std::string failed_message(const Communicator& world, const From& from, const To& to) {
  return thrown<CommError>([&] {
    if (world.rank() == 0)
      kerkis::send(Host(), world, from, {.to = 1}).wait();
    else if (world.rank() == 1)
      kerkis::receive(Host(), world, to, {.from = 0}).wait();
    kerkis::barrier(world).wait();
    kerkis::barrier(world).wait();
  });
}

TEST_CASE("a longer message is an error that says so") {
  for (const bool pieces : {false, true}) {
    const Communicator world(MPI_COMM_WORLD, "world", {.largest_count = pieces ? 4u : 1000u});
    if (world.size() == 1) return;
    const views::Of<float*, Kokkos::LayoutRight> nine("nine", 9), five("five", 5);
    const std::string text = failed_message(world, nine, five);
    CHECK(text.find("of 5 float from rank 0 over 'world'") != std::string::npos);
    CHECK(text.find(pieces ? "rank 0 has sent 9 elements, more than the 5 of the View"
                           : "the message is longer than what was to receive it") != std::string::npos);
    CHECK(world.poisoned());
  }
}

TEST_CASE("an error of a receive from any rank names the sender") {
  const Communicator world(MPI_COMM_WORLD, "world");
  if (world.size() == 1) return;
  const int last = world.size() - 1;
  const views::Of<float*, Kokkos::LayoutRight> nine("nine", 9), five("five", 5);
  try {
    if (world.rank() == last)
      kerkis::send(Host(), world, nine, {.to = 0}).wait();
    else if (world.rank() == 0)
      kerkis::receive(Host(), world, five, {.from = kerkis::any_rank}).wait();
    kerkis::barrier(world).wait();
    kerkis::barrier(world).wait();
    FAIL_CHECK("no failure");
  } catch (const CommError& error) {
    const std::string text = error.what();
    CHECK_MESSAGE(text.find(kerkis::message("receive #1 of 5 float from rank ", last, " over")) != text.npos, text);
    CHECK_MESSAGE(text.find("(unknown)") == text.npos, text);
    CHECK(error.peer() == last);
  }
}

/// Rank 0 sends a message in pieces of so many elements to rank 1, which receives elements of another size.
template <class Sent, class Taken>
void check_other_elements(std::size_t largest_count, std::size_t sent, std::size_t taken) {
  CAPTURE(largest_count);
  const Communicator world(MPI_COMM_WORLD, "world", {.largest_count = largest_count});
  if (world.size() == 1) return;
  const views::Of<Sent*, Kokkos::LayoutRight> from("from", sent);
  const views::Of<Taken*, Kokkos::LayoutRight> to("to", taken);
  const std::string text = failed_message(world, from, to);
  CHECK_MESSAGE((contains(text, "no whole number of elements") || contains(text, "ends within an element") ||
                 contains(text, "that have not the ")),
                text);
}

TEST_CASE("a message in pieces whose elements have another size is an error") {
  for (const std::size_t pieces : {5u, 6u, 7u, 8u}) {
    check_other_elements<float, double>(pieces, 20, 10);
    check_other_elements<char, float>(pieces, 40, 10);
    check_other_elements<char, double>(pieces, 40, 30);
    check_other_elements<double, float>(pieces, 10, 20);
    check_other_elements<float, double>(pieces, 20, 3);
  }
  // More bytes than a piece of the receiver's has, but no piece of the sender's.
  struct Three {
    char bytes[3];
  };
  check_other_elements<double, float>(5, 3, 50);
  check_other_elements<char, Three>(5, 5, 8);
  check_other_elements<char, Three>(5, 11, 20);
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
