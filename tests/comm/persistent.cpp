// SPDX-License-Identifier: Apache-2.0
// Operations that repeat: rounds, buffers, deadlines, and what is left of them after a failure.
#include <doctest/doctest.h>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/persistent_collective.hpp>
#include <kerkis/comm/persistent_hand_off.hpp>
#include <kerkis/comm/request_range.hpp>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "thrown.hpp"
#include "views.hpp"

namespace {

using kerkis::Communicator;
using kerkis::InputError;
using kerkis::PersistentRequest;
using kerkis::Request;
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
    Request comes = receive.start(), goes;
    if (round % 4 == 3) {
      kerkis::send(Host(), world, out, {.to = next, .tag = 4}).wait();
      comes.wait();
    } else {
      goes = send.start();
      bad += comes.pending() && goes.pending() ? 0u : 1u;
      if (round % 2 == 0) {
        comes.wait();
        goes.wait();
      } else {
        while (!comes.test() || !goes.test()) {
        }
      }
    }
    bad += goes.pending() || comes.pending() || received.count != in.size() || received.from != previous ? 1u : 0u;
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
  Request round = receive.start();
  kerkis::send(Host(), world, from, {.to = static_cast<int>(neighbour(world, 1))}).wait();
  round.wait();
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
      sum.start().wait();
      for (int i = 0; i < 9; ++i)
        bad += column(i) == world.size() * round * i + world.size() * (world.size() - 1) / 2 ? 0u : 1u;
      for (int i = 0; i < 9; ++i) column(i) = round * i + world.rank();
      Request largest_round = largest_of.start();
      while (!largest_round.test()) {
      }
      for (int i = 0; i < 9; ++i) bad += column(i) == round * i + root ? 0u : 1u;
      for (int i = 0; i < 9; ++i) column(i) = world.rank() == root ? round + i : -1;
      copy.start().wait();
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
    Request sums = sum.start();
    kerkis::all_reduce(Host(), world, once, options).wait();
    sums.wait();
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
    Request sums = sum.start(), copies = copy.start();
    CHECK(sums.test());
    copies.wait();
  }
  CHECK(views::wrong(m, 3) == 0);
}

TEST_CASE("moves, and what makes no sense") {
  const Communicator world(MPI_COMM_WORLD);
  PersistentRequest nothing;
  CHECK(refusal([&] { (void)nothing.start(); }) ==
        "start: the persistent operation was not made, or has been moved away");
  if (world.size() == 1) return;
  const int next = static_cast<int>(neighbour(world, 1)), previous = static_cast<int>(neighbour(world, -1));
  const Matrix<int> a("a", 4, 4), b("b", 4, 4);
  CHECK(refusal([&] { kerkis::persistent_send(Host(), world, a, {.to = world.rank()}); }) ==
        kerkis::message("persistent_send: ", world.rank(), " is no other rank of 'world'"));
  CHECK_THROWS_AS(kerkis::persistent_receive(Host(), world, a, {.from = previous, .tag = -3}), InputError);
  const int made = __LINE__ + 1;
  PersistentRequest receive = kerkis::persistent_receive(Host(), world, b, {.from = previous});
  PersistentRequest send = kerkis::persistent_send(Host(), world, a, {.to = next});
  Request comes = receive.start();
  const std::string twice =
      kerkis::message("start: the last round of receive called at persistent.cpp:", made, " is not complete");
  CHECK(refusal([&] { (void)receive.start(); }) == twice);
  views::fill(a, 1);
  PersistentRequest moved = std::move(receive);
  CHECK_THROWS_AS((void)receive.start(), InputError);  // NOLINT: it is of nothing now
  Request goes = send.start();
  nothing = std::move(moved);
  CHECK(refusal([&] { (void)nothing.start(); }) == twice);
  comes.wait();
  goes.wait();
  CHECK(views::wrong(b, 1) == 0);
  // A round under way is completed by the destructor of its Request.
  views::fill(a, 2);
  {
    const Request dropped = nothing.start();
    goes = send.start();
  }
  CHECK(views::wrong(b, 2) == 0);
}

/// In MPI's persistent form, in pieces, through staging buffers, and started anew to be checked.
std::vector<kerkis::CommunicatorOptions> kinds() {
  return {{}, {.largest_count = 5}, {.stage = true}, {.check = true}};
}

TEST_CASE("a second round is refused while the first is under way, and neither is lost") {
  for (const auto& options : kinds()) {
    const Communicator world(MPI_COMM_WORLD, "world", options);
    if (world.size() == 1) return;
    const Matrix<double> m("m", 4, 2);
    Kokkos::deep_copy(m, 1);
    PersistentRequest sum = kerkis::persistent_all_reduce(Host(), world, m);
    for (int round = 1, value = world.size(); round <= 3; ++round, value *= world.size()) {
      Request first = sum.start();
      const std::string text = refusal([&] { (void)sum.start(); });
      CHECK_MESSAGE(text.starts_with("start: the last round of all_reduce called at persistent.cpp:"), text);
      while (!first.advance()) world.poll();
      CHECK(m(3, 1) == value);
    }
  }
}

/// Ranks in a row, from the first to the last.
struct Row {
  int first, last;
  double sum;
  bool in_order;
};
/// Does not commute: the left one is from the lower ranks.
struct Join {
  static constexpr bool commutes = false;
  Row operator()(const Row& a, const Row& b) const {
    return {a.first, b.last, a.sum + b.sum, a.in_order && b.in_order && a.last + 1 == b.first};
  }
};
/// Commutes: of equal sums the lower rank stays.
struct Largest {
  static constexpr bool commutes = true;
  Row operator()(const Row& a, const Row& b) const {
    return a.sum < b.sum || (a.sum == b.sum && b.first < a.first) ? b : a;
  }
};

TEST_CASE("all_reduce of structs by a functor in rounds") {
  for (const auto& options : kinds()) {
    const Communicator world(MPI_COMM_WORLD, "world", options);
    const int rank = world.rank(), size = world.size();
    const Matrix<Row> m("m", 9, 3), largest("largest", 4, 2);
    const auto column = Kokkos::subview(m, Kokkos::ALL, 1);
    PersistentRequest joins = kerkis::persistent_all_reduce<Join>(Host(), world, column);
    PersistentRequest compares = kerkis::persistent_all_reduce<Largest>(Host(), world, largest);
    const auto row = [](int first, int last, int sum) { return Row{first, last, static_cast<double>(sum), true}; };
    std::size_t bad = 0;
    for (int round = 0; round < 8; ++round) {
      const int best = round % size;  // the rank of the largest sum; in round 7 all are equal
      Kokkos::deep_copy(m, row(-1, -1, -1));
      for (int i = 0; i < 9; ++i) column(i) = row(rank, rank, 10 * round + i + rank);
      Kokkos::deep_copy(largest, row(rank, rank, round == 7 ? 5 : rank == best ? 100 + round : rank));
      Request both[] = {joins.start(), compares.start()};
      if (round % 2 == 0) kerkis::wait_all(both);
      while (!kerkis::test_all(both)) {
      }
      for (int i = 0; i < 9; ++i) {
        const Row& whole = column(i);
        bad += whole.first == 0 && whole.last == size - 1 && whole.in_order ? 0u : 1u;
        bad += whole.sum == size * (10 * round + i) + size * (size - 1) / 2 ? 0u : 1u;
        bad += m(i, 0).sum == -1 && m(i, 2).sum == -1 ? 0u : 1u;
      }
      for (int i = 0; i < 4; ++i)
        bad += largest(i, 1).first == (round == 7 ? 0 : best) && largest(i, 1).sum == (round == 7 ? 5 : 100 + round)
                   ? 0u
                   : 1u;
    }
    CHECK(bad == 0);
  }
}

TEST_CASE("wait_any, wait_all and test_all over rounds") {
  for (const auto& options : kinds()) {
    const Communicator world(MPI_COMM_WORLD, "world", options);
    const int size = world.size(), rank = world.rank();
    std::vector<PersistentRequest> sends, receives;
    std::vector<Matrix<int>> out, in;
    for (int other = 0; other < size; ++other) {
      if (other == rank) continue;
      out.emplace_back("out", 7, 1);
      in.emplace_back("in", 7, 1);
      sends.push_back(kerkis::persistent_send(Host(), world, out.back(), {.to = other}));
      receives.push_back(kerkis::persistent_receive(Host(), world, in.back(), {.from = other}));
    }
    std::size_t bad = 0;
    for (int round = 0; round < 9; ++round) {
      std::vector<Request> requests;
      for (PersistentRequest& receive : receives) requests.push_back(receive.start());
      for (std::size_t i = 0; i < sends.size(); ++i) {
        views::fill(out[i], static_cast<std::size_t>(50 * round + rank));
        requests.push_back(sends[i].start());
      }
      const auto right = [&](std::size_t i) {
        const std::size_t from = i < static_cast<std::size_t>(rank) ? i : i + 1;
        return views::wrong(in[i], 50 * static_cast<std::size_t>(round) + from) == 0;
      };
      std::size_t seen = 0;
      if (round % 3 == 0) {
        while (const auto i = kerkis::wait_any(requests)) {
          ++seen;
          bad += *i >= in.size() || right(*i) ? 0u : 1u;
        }
        bad += seen == requests.size() ? 0u : 1u;
      } else if (round % 3 == 1) {
        kerkis::wait_all(requests);
      } else {
        while (!kerkis::test_all(requests)) {
        }
      }
      for (std::size_t i = 0; i < in.size(); ++i) bad += right(i) ? 0u : 1u;
    }
    CHECK(bad == 0);
  }
}

TEST_CASE("a round to which no message has come is cancelled, and the next one takes the message") {
  for (const auto& options : kinds()) {
    const Communicator world(MPI_COMM_WORLD, "world", options);
    if (world.size() == 1) return;
    const int next = static_cast<int>(neighbour(world, 1)), previous = static_cast<int>(neighbour(world, -1));
    const Matrix<int> a("a", 3, 2), b("b", 3, 2);
    kerkis::Received received;
    PersistentRequest receive = kerkis::persistent_receive(Host(), world, Kokkos::subview(b, Kokkos::ALL, 1),
                                                           {.from = previous, .received = &received});
    PersistentRequest send = kerkis::persistent_send(Host(), world, Kokkos::subview(a, Kokkos::ALL, 0), {.to = next});
    PersistentRequest sum = kerkis::persistent_all_reduce(Host(), world, Matrix<int>("c", 1, 1));
    for (std::size_t round = 0; round < 5; ++round) {
      views::fill(b, 70);
      Request sums = sum.start();
      CHECK_FALSE(sums.cancel());
      sums.wait();
      {
        Request none = receive.start();
        CHECK_FALSE(none.test());
        CHECK(none.cancel());
        CHECK_FALSE(none.pending());
      }
      CHECK(views::wrong(b, 70) == 0);
      kerkis::barrier(world).wait();  // before anybody sends
      views::fill(a, round);
      Request goes = send.start();
      CHECK_FALSE(goes.cancel());
      Request comes = receive.start();
      while (round % 2 == 0 && !comes.test()) {
      }
      CHECK_FALSE((round % 2 == 0 && comes.cancel()));
      kerkis::wait_all(comes, goes);
      CHECK(received.count == 3);
      for (std::size_t i = 0; i < 3; ++i) {
        CHECK(b(i, 1) == a(i, 0));
        CHECK(b(i, 0) == views::element<int>(70 + 2 * i));
      }
      received = {};
    }
  }
}

TEST_CASE("a round goes on without what has started it, also detached, and keeps the View") {
  for (const auto& options : kinds()) {
    const Communicator world(MPI_COMM_WORLD, "world", options);
    if (world.size() == 1) return;
    const int next = static_cast<int>(neighbour(world, 1)), previous = static_cast<int>(neighbour(world, -1));
    const auto first_round = [](PersistentRequest repeated) { return repeated.start(); };
    const Matrix<int> b("b", 8, 2), c("c", 8, 2);
    const auto column = Kokkos::subview(b, Kokkos::ALL, 1);
    Request comes = first_round(kerkis::persistent_receive(Host(), world, column, {.from = previous}));
    CHECK(b.use_count() > 2);
    first_round(kerkis::persistent_receive(Host(), world, c, {.from = previous})).detach();
    for (std::size_t i = 0; i < 2; ++i) {
      Matrix<int> a("a", 8, i + 1);
      views::fill(a, static_cast<std::size_t>(world.rank()) + i);
      Request goes = first_round(kerkis::persistent_send(Host(), world, a, {.to = next}));
      a = {};
      if (i == 1) goes.detach();
      if (i == 0) kerkis::wait_all(comes, goes);
    }
    CHECK(views::wrong(column, neighbour(world, -1)) == 0);
    CHECK(b.use_count() == 2);
    while (c.use_count() > 1) world.poll();
    CHECK(views::wrong(c, neighbour(world, -1) + 1) == 0);
  }
}

TEST_CASE("a round behind a collective of several steps, and before one") {
  const Communicator world(MPI_COMM_WORLD);
  const Matrix<int> a("a", 6, 1);
  const Matrix<float> b("b", 5'000, 1), c("c", 5'000, 1);
  PersistentRequest sum = kerkis::persistent_all_reduce(Host(), world, a);
  for (int round = 0; round < 20; ++round) {
    Kokkos::deep_copy(a, round);
    Kokkos::deep_copy(b, 1);
    Kokkos::deep_copy(c, 2);
    Request first = kerkis::all_reduce(Host(), world, b, {.reproducible = true}), sums = sum.start(),
            last = kerkis::all_reduce(Host(), world, c, {.reproducible = true});
    if (world.size() > 1) CHECK_THROWS_AS((void)sum.start(), InputError);
    if (world.rank() % 2 == 0) kerkis::wait_all(last, sums, first);
    if (world.rank() % 2 == 1) kerkis::wait_all(first, sums, last);
    CHECK(a(5, 0) == round * world.size());
    CHECK(b(4'999, 0) == static_cast<float>(world.size()));
    CHECK(c(4'999, 0) == static_cast<float>(2 * world.size()));
  }
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
  Request comes = receive.start(), goes = send.start();
  receive = {};
  comes.wait();
  goes.wait();
  CHECK(views::wrong(b, 6) == 0);
}

}  // namespace
