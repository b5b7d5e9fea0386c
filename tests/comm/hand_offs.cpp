// SPDX-License-Identifier: Apache-2.0
// send, receive, exchange and shift: every kind of View and element, and what is refused.
#include <doctest/doctest.h>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/exchange.hpp>
#include <kerkis/comm/shift.hpp>

#include <string>
#include <vector>

#include "thrown.hpp"
#include "views.hpp"

namespace {

using kerkis::Communicator;
using kerkis::InputError;
using kerkis::Received;
using kerkis::Request;
using views::Host;

/// Where rank 0's and the last rank's messages are seen by all: each rank's neighbours along the ring.
int next(const Communicator& world) { return (world.rank() + 1) % world.size(); }
int previous(const Communicator& world) { return (world.rank() + world.size() - 1) % world.size(); }

TEST_CASE("any View, any rank count, any length of pieces") {
  for (const std::size_t largest : {std::size_t{1} << 30, std::size_t{7}}) {
    const Communicator world(MPI_COMM_WORLD, "world", {.largest_count = largest});
    std::size_t bad = 0;
    int kind = 0;
    views::some<float>([&](const auto& view, const auto& whole) {
      // Every rank sends to its neighbour from a contiguous View, which receives the elements in order.
      views::fill(whole, 5000);
      const std::size_t first = static_cast<std::size_t>(10 * world.rank() + kind);
      const views::Of<float*, Kokkos::LayoutRight> run("run", view.size());
      views::fill(run, first);
      kerkis::shift(Host(), world, run, view, {.tag = kind}).wait();
      bad += views::wrong(view, static_cast<std::size_t>(10 * previous(world) + kind));
      // And back.
      views::fill(run, 0);
      kerkis::shift(Host(), world, view, run, {.by = -1, .tag = kind}).wait();
      bad += views::wrong(run, first);
      ++kind;
    });
    CHECK(bad == 0);
  }
}

TEST_CASE("messages of one tag keep their order, others do not matter") {
  const Communicator world(MPI_COMM_WORLD, "world", {.largest_count = 10});
  if (world.size() == 1) return;
  using View = views::Of<int*, Kokkos::LayoutRight>;
  // Long and short ones mixed, all under way at once.
  const std::vector<std::size_t> lengths{25, 3, 10, 0, 41, 9, 30, 11};
  std::vector<View> out, in;
  std::vector<Request> requests;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    out.emplace_back("out", lengths[i]);
    in.emplace_back("in", lengths[i]);
    views::fill(out[i], i * 10 + static_cast<std::size_t>(world.rank()));
    requests.push_back(kerkis::send(Host(), world, out[i], {.to = next(world), .tag = 5}));
  }
  for (const View& view : in)
    requests.push_back(kerkis::receive(Host(), world, view, {.from = previous(world), .tag = 5}));
  while (!requests.empty()) {  // completed from the end, and by test
    while (!requests.back().test()) {
    }
    requests.pop_back();
  }
  std::size_t bad = 0;
  for (std::size_t i = 0; i < in.size(); ++i)
    bad += views::wrong(in[i], i * 10 + static_cast<std::size_t>(previous(world)));
  CHECK(bad == 0);
}

template <class View>
void check_block(const Communicator& world, const View& out, const View& in) {
  views::fill(out, static_cast<std::size_t>(world.rank()));
  views::fill(in, 7);
  Request comes = kerkis::receive(Host(), world, in, {.from = previous(world)});
  kerkis::send(Host(), world, out, {.to = next(world)}).wait();
  comes.wait();
  CHECK(views::wrong(in, static_cast<std::size_t>(previous(world))) == 0);
}

TEST_CASE("large blocks of matrices, with long lines and short ones") {
  const Communicator world(MPI_COMM_WORLD);
  if (world.size() == 1) return;
  const auto part = [](std::size_t begin, std::size_t count) {
    return Kokkos::pair<std::size_t, std::size_t>(begin, begin + count);
  };
  const views::Of<double**, Kokkos::LayoutRight> a("a", 800, 900), b("b", 800, 900);
  check_block(world, Kokkos::subview(a, part(3, 700), part(5, 600)), Kokkos::subview(b, part(90, 700), part(1, 600)));
  const views::Of<double**, Kokkos::LayoutLeft> c("c", 900, 800), d("d", 900, 800);
  check_block(world, Kokkos::subview(c, part(5, 600), part(3, 700)), Kokkos::subview(d, part(1, 600), part(90, 700)));
  const views::Of<float***, Kokkos::LayoutRight> e("e", 40, 40, 700), f("f", 40, 40, 700);
  check_block(world, Kokkos::subview(e, part(1, 38), part(1, 38), part(2, 600)),
              Kokkos::subview(f, part(0, 38), part(1, 38), part(2, 600)));
  const views::Of<double**, Kokkos::LayoutRight> g("g", 9000, 90), h("h", 9000, 90);
  check_block(world, Kokkos::subview(g, Kokkos::ALL, part(3, 60)), Kokkos::subview(h, Kokkos::ALL, part(20, 60)));
}

TEST_CASE("a shorter message leaves the rest, and says how long it is") {
  for (const std::size_t largest : {std::size_t{1} << 30, std::size_t{8}, std::size_t{6}, std::size_t{100}}) {
    const Communicator world(MPI_COMM_WORLD, "world", {.largest_count = largest});
    if (world.size() == 1) return;
    for (const std::size_t count : {0u, 5u, 6u, 8u, 16u, 19u}) {
      const views::Of<float**, Kokkos::LayoutRight> to("to", 20, 2);
      const views::Of<float*, Kokkos::LayoutRight> from("from", count), plain("plain", 20);
      views::fill(from, static_cast<std::size_t>(world.rank()));
      views::fill(to, 60);
      views::fill(plain, 60);
      const auto column = Kokkos::subview(to, Kokkos::ALL, 0);
      views::fill(column, 60);
      Received strided, straight;
      Request a = kerkis::receive(Host(), world, column, {.from = previous(world), .received = &strided});
      Request b = kerkis::receive(Host(), world, plain, {.from = previous(world), .tag = 1, .received = &straight});
      kerkis::send(Host(), world, from, {.to = next(world)}).wait();
      kerkis::send(Host(), world, from, {.to = next(world), .tag = 1}).wait();
      a.wait(), b.wait();
      CHECK(strided.count == count);
      CHECK(straight.count == count);
      CHECK(strided.from == previous(world));
      std::size_t bad = 0;
      for (std::size_t i = 0; i < 20; ++i) {
        const float expected =
            views::element<float>(i < count ? i + static_cast<std::size_t>(previous(world)) : i + 60);
        bad += (column(i) == expected ? 0u : 1u) + (plain(i) == expected ? 0u : 1u);
      }
      CHECK(bad == 0);
    }
  }
}

TEST_CASE("from any rank") {
  const Communicator world(MPI_COMM_WORLD, "world", {.largest_count = 10});
  const views::Of<int*, Kokkos::LayoutRight> view("view", 25);
  if (world.size() == 1) {
    CHECK(refusal([&] { kerkis::receive(Host(), world, view, {.from = kerkis::any_rank}); }) ==
          "receive: 'world' has no other rank");
    return;
  }
  if (world.rank() > 0) {
    views::fill(view, static_cast<std::size_t>(world.rank()));
    kerkis::send(Host(), world, view, {.to = 0, .tag = 3}).wait();
  } else {
    std::vector<int> seen(static_cast<std::size_t>(world.size()), 0);
    for (int i = 1; i < world.size(); ++i) {
      Received what;
      kerkis::receive(Host(), world, view, {.from = kerkis::any_rank, .tag = 3, .received = &what}).wait();
      CHECK(what.count == 25);
      CHECK(views::wrong(view, static_cast<std::size_t>(what.from)) == 0);
      ++seen[static_cast<std::size_t>(what.from)];
    }
    for (int i = 1; i < world.size(); ++i) CHECK(seen[static_cast<std::size_t>(i)] == 1);
  }
}

TEST_CASE("an exchange, in both directions, at a rim, and with itself") {
  for (const std::size_t largest : {std::size_t{1} << 30, std::size_t{4}}) {
    const Communicator world(MPI_COMM_WORLD, "world", {.largest_count = largest});
    const int rank = world.rank(), size = world.size();
    const views::Of<double**, Kokkos::LayoutRight> from("from", 9, 2), to("to", 9, 2);
    const auto out = Kokkos::subview(from, Kokkos::ALL, 1), in = Kokkos::subview(to, Kokkos::ALL, 0);
    const auto number = [](int r) { return static_cast<std::size_t>(10 * r); };
    views::fill(out, number(rank));

    const int partner = (rank ^ 1) < size ? rank ^ 1 : rank;
    kerkis::exchange(Host(), world, out, in, {.with = partner}).wait();
    CHECK(views::wrong(in, number(partner)) == 0);

    kerkis::exchange(Host(), world, out, in, {.to = next(world), .from = previous(world)}).wait();
    CHECK(views::wrong(in, number(previous(world))) == 0);

    views::fill(in, 77);
    kerkis::shift(Host(), world, out, in, {.around = false}).wait();
    CHECK(views::wrong(in, rank == 0 ? 77 : number(rank - 1)) == 0);

    views::fill(in, 77);
    kerkis::exchange(Host(), world, out, in, {.with = kerkis::no_rank}).wait();
    CHECK(views::wrong(in, 77) == 0);

    for (const int by : {0, 2, -1, size, 3 * size + 1, -5}) {
      kerkis::shift(Host(), world, out, in, {.by = by}).wait();
      CHECK(views::wrong(in, number(((rank - by) % size + size) % size)) == 0);
    }
    // Different lengths each way.
    if (partner != rank) {
      const views::Of<double*, Kokkos::LayoutRight> some("some", rank % 2 == 0 ? 2 : 9);
      views::fill(in, 50);
      views::fill(some, number(rank));
      kerkis::exchange(Host(), world, some, in, {.with = partner}).wait();
      const std::size_t came = rank % 2 == 0 ? 9 : 2;
      std::size_t bad = 0;
      for (std::size_t i = 0; i < 9; ++i)
        bad += in(i) == views::element<double>(i < came ? number(partner) + i : 50 + i) ? 0u : 1u;
      CHECK(bad == 0);
    }
  }
}

TEST_CASE("exchange and shift in place, of any View, in one piece and in several") {
  for (const auto& options : std::vector<kerkis::CommunicatorOptions>{{}, {.largest_count = 7}, {.stage = true}}) {
    const Communicator world(MPI_COMM_WORLD, "world", options);
    std::size_t bad = 0;
    const auto number = [](int rank) { return static_cast<std::size_t>(50 * rank); };
    views::some<float>([&](const auto& view, const auto& whole) {
      const auto refill = [&] {
        views::fill(whole, 5000);
        views::fill(view, number(world.rank()));
      };
      refill();
      kerkis::shift(Host(), world, view).wait();
      bad += views::wrong(view, number(previous(world)));
      refill();
      const kerkis::ShiftOptions back{.by = -1};
      kerkis::shift(Host(), world, view, back).wait();
      bad += views::wrong(view, number(next(world)));
      refill();
      kerkis::shift(Host(), world, view, {.around = false}).wait();
      bad += views::wrong(view, number(world.rank() == 0 ? 0 : previous(world)));
      refill();
      const int opposite = world.size() - 1 - world.rank();  // in the middle it is the rank itself
      kerkis::exchange(Host(), world, view, {.with = opposite, .tag = 3}).wait();
      bad += views::wrong(view, number(opposite));
      kerkis::exchange(Host(), world, view, {.with = kerkis::no_rank}).wait();
      bad += views::wrong(view, number(opposite));
    });
    CHECK(bad == 0);
  }
}

TEST_CASE("a communicator of one rank without MPI") {
  const Communicator alone;
  const views::Of<float**, Kokkos::LayoutLeft> from("from", 4, 5), to("to", 8, 5);
  views::fill(from, 3);
  const auto half = Kokkos::subview(to, Kokkos::pair<int, int>(2, 6), Kokkos::ALL);
  kerkis::shift(Host(), alone, from, half).wait();
  CHECK(views::wrong(half, 3) == 0);
  kerkis::shift(Host(), alone, half).wait();
  CHECK(views::wrong(half, 3) == 0);
}

TEST_CASE("what makes no sense is refused") {
  const Communicator world(MPI_COMM_WORLD);
  const views::Of<float*, Kokkos::LayoutRight> three("three", 3), four("four", 4);
  const Host host;
  const std::string hint = "; kerkis::no_rank says that nobody is there";
  CHECK(refusal([&] { kerkis::exchange(host, world, three, four, {}); }) ==
        "exchange: the other rank is not given" + hint);
  CHECK(refusal([&] { kerkis::exchange(host, world, three, four, {.to = 0}); }) ==
        "exchange: .from is not given" + hint);
  CHECK(refusal([&] { kerkis::exchange(host, world, three, four, {.from = kerkis::no_rank}); }) ==
        "exchange: .to is not given" + hint);
  CHECK(refusal([&] { kerkis::exchange(host, world, three, four, {.with = world.size()}); }) ==
        kerkis::message("exchange: ", world.size(), " is no rank of 'world'"));
  CHECK(refusal([&] { kerkis::exchange(host, world, three, four, {.to = 0, .from = kerkis::any_rank}); }) ==
        "exchange: any_rank is for receives alone");
  CHECK(refusal([&] { kerkis::send(host, world, three, {.to = kerkis::any_rank}); }) ==
        "send: any_rank is for receives alone");
  CHECK(refusal([&] { kerkis::exchange(host, world, three, four, {.with = world.rank()}); }) ==
        kerkis::message("exchange of rank ", world.rank(), " with itself: 3 elements do not fill 4"));
  CHECK_THROWS_AS(kerkis::shift(host, world, three, four, {.by = world.size()}), InputError);
  if (world.size() == 1) return;
  CHECK(refusal([&] { kerkis::exchange(host, world, three, four, {.to = world.rank(), .from = next(world)}); }) ==
        kerkis::message("exchange: who sends to itself receives from itself, not to ", world.rank(), " and from ",
                        next(world)));
  const int largest = kerkis::comm::largest_tag(world);
  CHECK(largest >= 28'000);
  for (const int tag : {-1, largest + 1}) {
    const std::string words = kerkis::message(": tag ", tag, " is none of 0 to ", largest);
    CHECK(refusal([&] { kerkis::send(host, world, three, {.to = next(world), .tag = tag}); }) == "send" + words);
    CHECK(refusal([&] { kerkis::receive(host, world, three, {.from = next(world), .tag = tag}); }) ==
          "receive" + words);
    CHECK(refusal([&] { kerkis::shift(host, world, three, four, {.tag = tag}); }) == "shift" + words);
  }
  // Nothing was sent: the largest tag works.
  kerkis::shift(host, world, three, four, {.tag = largest}).wait();
}

TEST_CASE("a receive is withdrawn") {
  const Communicator world(MPI_COMM_WORLD);
  if (world.size() == 1) return;
  const views::Of<float**, Kokkos::LayoutRight> to("to", 5, 2);
  const auto column = Kokkos::subview(to, Kokkos::ALL, 1);
  Request request = kerkis::receive(Host(), world, column, {.from = previous(world), .tag = 9});
  CHECK_FALSE(request.test());
  CHECK(request.cancel());
  CHECK_FALSE(request.pending());
}

TEST_CASE("hand-offs go on without their requests") {
  const Communicator world(MPI_COMM_WORLD, "world", {.largest_count = 10});
  if (world.size() == 1) return;
  const views::Of<float*, Kokkos::LayoutRight> from("from", 95), to("to", 95);
  views::fill(from, static_cast<std::size_t>(world.rank()));
  {
    Request request = kerkis::send(Host(), world, from, {.to = next(world)});
    request.detach();
  }
  kerkis::receive(Host(), world, to, {.from = previous(world)}).wait();
  CHECK(views::wrong(to, static_cast<std::size_t>(previous(world))) == 0);
  kerkis::barrier(world).wait();
}

}  // namespace
