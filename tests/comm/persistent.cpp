// SPDX-License-Identifier: Apache-2.0
// Operations that repeat: rounds, buffers, deadlines, and what is left of them after a failure.
#include <doctest/doctest.h>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/persistent_collective.hpp>
#include <kerkis/comm/persistent_hand_off.hpp>

#include <cstring>
#include <string>
#include <utility>

#include "views.hpp"

namespace {

using kerkis::Communicator;
using kerkis::InputError;
using kerkis::PersistentRequest;
using views::Host;

template <class T>
using Matrix = views::Of<T**, Kokkos::LayoutRight>;

std::size_t neighbour(const Communicator& world, int by) {
  return static_cast<std::size_t>((world.rank() + by + world.size()) % world.size());
}

/// Rounds of a ring: by wait, by test, and with plain hand-offs on the other side.
template <class View>
std::size_t wrong_in_ring(const Communicator& world, const View& out, const View& in) {
  const int next = static_cast<int>(neighbour(world, 1)), previous = static_cast<int>(neighbour(world, -1));
  kerkis::Received received;
  PersistentRequest send = kerkis::persistent_send(Host(), world, out, {.to = next, .tag = 4});
  PersistentRequest receive =
      kerkis::persistent_receive(Host(), world, in, {.from = previous, .tag = 4, .received = &received});
  std::size_t bad = 0;
  for (std::size_t round = 0; round < 12; ++round) {
    views::fill(out, 5 * round + static_cast<std::size_t>(world.rank()));
    views::fill(in, 90);
    if (round % 4 == 3) {
      receive.start();
      kerkis::send(Host(), world, out, {.to = next, .tag = 4}).wait();
      receive.wait();
    } else {
      receive.start();
      send.start();
      bad += receive.active() && send.active() ? 0u : 1u;
      if (round % 2 == 0) {
        receive.wait();
        send.wait();
      } else {
        while (!receive.test() || !send.test()) {
        }
      }
    }
    bad += send.active() || receive.active() || received.count != in.size() || received.from != previous ? 1u : 0u;
    bad += views::wrong(in, 5 * round + neighbour(world, -1));
  }
  return bad;
}

TEST_CASE("hand-offs in rounds") {
  for (const std::size_t largest : {std::size_t{1} << 30, std::size_t{5}}) {
    for (const bool stage : {false, true}) {
      const Communicator world(MPI_COMM_WORLD, "world", {.largest_count = largest, .stage = stage});
      if (world.size() == 1) return;
      const Matrix<float> a("a", 13, 3), b("b", 13, 3);
      CHECK(wrong_in_ring(world, a, b) == 0);
      CHECK(wrong_in_ring(world, Kokkos::subview(a, Kokkos::ALL, 1), Kokkos::subview(b, Kokkos::ALL, 2)) == 0);
      const Matrix<float> none("none", 0, 3);
      CHECK(wrong_in_ring(world, none, none) == 0);
    }
  }
}

TEST_CASE("a shorter message leaves the rest") {
  const Communicator world(MPI_COMM_WORLD);
  if (world.size() == 1) return;
  const Matrix<int> to("to", 8, 2), from("from", 3, 1);
  const auto column = Kokkos::subview(to, Kokkos::ALL, 1);
  views::fill(column, 40);
  views::fill(from, static_cast<std::size_t>(world.rank()));
  PersistentRequest receive = kerkis::persistent_receive(Host(), world, column, {.from = kerkis::any_rank});
  receive.start();
  kerkis::send(Host(), world, from, {.to = static_cast<int>(neighbour(world, 1))}).wait();
  receive.wait();
  CHECK(views::wrong(Kokkos::subview(column, Kokkos::pair<int, int>(0, 3)), neighbour(world, -1)) == 0);
  CHECK(views::wrong(Kokkos::subview(column, Kokkos::pair<int, int>(3, 8)), 43) == 0);
}

TEST_CASE("collectives in rounds") {
  for (const std::size_t largest : {std::size_t{1} << 30, std::size_t{5}}) {
    const Communicator world(MPI_COMM_WORLD, "world", {.largest_count = largest});
    const Matrix<double> m("m", 9, 2);
    const auto column = Kokkos::subview(m, Kokkos::ALL, 1);
    const int root = world.size() - 1;
    PersistentRequest sum = kerkis::persistent_all_reduce(Host(), world, column);
    PersistentRequest largest_of =
        kerkis::persistent_all_reduce(Host(), world, column, {.operation = kerkis::Reduction::maximum});
    PersistentRequest copy = kerkis::persistent_broadcast(Host(), world, column, {.root = root});
    std::size_t bad = 0;
    for (int round = 0; round < 8; ++round) {
      for (int i = 0; i < 9; ++i) column(i) = round * i + world.rank();
      sum.start();
      sum.wait();
      for (int i = 0; i < 9; ++i)
        bad += column(i) == world.size() * round * i + world.size() * (world.size() - 1) / 2 ? 0u : 1u;
      for (int i = 0; i < 9; ++i) column(i) = round * i + world.rank();
      largest_of.start();
      while (!largest_of.test()) {
      }
      for (int i = 0; i < 9; ++i) bad += column(i) == round * i + root ? 0u : 1u;
      for (int i = 0; i < 9; ++i) column(i) = world.rank() == root ? round + i : -1;
      copy.start();
      copy.wait();
      for (int i = 0; i < 9; ++i) bad += column(i) == round + i ? 0u : 1u;
    }
    CHECK(bad == 0);
  }
}

/// Rounds of sums whose rounding depends on their order, beside the nonblocking operation.
template <class T>
std::size_t different_from_all_reduce(const Communicator& world, const kerkis::AllReduceOptions& options) {
  const views::Of<T*, Kokkos::LayoutRight> repeated("repeated", 50), once("once", 50);
  PersistentRequest sum = kerkis::persistent_all_reduce(Host(), world, repeated, options);
  std::size_t different = 0;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 50; ++i)
      repeated(i) = once(i) = T(1.0f / static_cast<float>(1 + i + 7 * round + 11 * world.rank()));
    sum.start();
    kerkis::all_reduce(Host(), world, once, options).wait();
    sum.wait();
    different += std::memcmp(repeated.data(), once.data(), 50 * sizeof(T)) == 0 ? 0u : 1u;
  }
  return different;
}

TEST_CASE("all_reduce in rounds keeps its promises: half types, and the same bits on any number of ranks") {
  const Communicator world(MPI_COMM_WORLD);
  CHECK(different_from_all_reduce<float>(world, {.reproducible = true}) == 0);
  CHECK(different_from_all_reduce<double>(world, {.shards = static_cast<std::size_t>(world.size())}) == 0);
  CHECK(different_from_all_reduce<kerkis::float16>(world, {}) == 0);
  CHECK(different_from_all_reduce<kerkis::bfloat16>(world, {.operation = kerkis::Reduction::maximum}) == 0);
}

TEST_CASE("over one rank without MPI there is nothing to do") {
  const Communicator alone;
  const Matrix<float> m("m", 2, 2);
  views::fill(m, 3);
  PersistentRequest sum = kerkis::persistent_all_reduce(Host(), alone, m);
  PersistentRequest copy = kerkis::persistent_broadcast(Host(), alone, m);
  for (int round = 0; round < 2; ++round) {
    sum.start();
    copy.start();
    CHECK(sum.test());
    copy.wait();
  }
  CHECK(views::wrong(m, 3) == 0);
}

TEST_CASE("moves, and what makes no sense") {
  const Communicator world(MPI_COMM_WORLD);
  PersistentRequest nothing;
  CHECK(nothing.test());
  nothing.wait();
  CHECK_THROWS_AS(nothing.start(), InputError);
  if (world.size() == 1) return;
  const int next = static_cast<int>(neighbour(world, 1)), previous = static_cast<int>(neighbour(world, -1));
  const Matrix<int> a("a", 4, 4), b("b", 4, 4);
  CHECK_THROWS_WITH_AS(kerkis::persistent_send(Host(), world, a, {.to = world.rank()}),
                       kerkis::message("send: ", world.rank(), " is no other rank of 'world'").c_str(), InputError);
  CHECK_THROWS_AS(kerkis::persistent_receive(Host(), world, a, {.from = previous, .tag = -3}), InputError);
  PersistentRequest receive = kerkis::persistent_receive(Host(), world, b, {.from = previous});
  PersistentRequest send = kerkis::persistent_send(Host(), world, a, {.to = next});
  receive.start();
  CHECK_THROWS_WITH_AS(receive.start(), "receive: a round is started before the last one is complete", InputError);
  views::fill(a, 1);
  PersistentRequest moved = std::move(receive);
  send.start();
  nothing = std::move(moved);
  nothing.wait();
  send.wait();
  CHECK(views::wrong(b, 1) == 0);
  // A round under way is completed by the destructor.
  views::fill(a, 2);
  nothing.start();
  send.start();
  {
    const PersistentRequest dropped = std::move(nothing);
  }
  CHECK(views::wrong(b, 2) == 0);
}

TEST_CASE("they outlive their communicator's handle") {
  PersistentRequest send, receive;
  const Matrix<int> a("a", 4, 4), b("b", 4, 4);
  bool alone = false;
  {
    const Communicator world(MPI_COMM_WORLD);
    alone = world.size() == 1;
    if (!alone) {
      send = kerkis::persistent_send(Host(), world, a, {.to = static_cast<int>(neighbour(world, 1))});
      receive = kerkis::persistent_receive(Host(), world, b, {.from = static_cast<int>(neighbour(world, -1))});
    }
  }
  if (alone) return;
  views::fill(a, 6);
  receive.start();
  send.start();
  receive.wait();
  send.wait();
  CHECK(views::wrong(b, 6) == 0);
}

}  // namespace
