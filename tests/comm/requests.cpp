// SPDX-License-Identifier: Apache-2.0
// Waits for several requests at once.
#include <doctest/doctest.h>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/request_range.hpp>

#include <algorithm>
#include <array>
#include <functional>
#include <list>
#include <optional>
#include <ranges>
#include <span>
#include <thread>
#include <utility>
#include <vector>

using namespace std::chrono_literals;

namespace {

using kerkis::Communicator;
using kerkis::Request;
using Host = Kokkos::DefaultHostExecutionSpace;
using View = Kokkos::View<int*, Kokkos::HostSpace>;
using Indices = std::vector<std::size_t>;

View filled(int value, std::size_t count = 100) {
  View view("filled", count);
  Kokkos::deep_copy(view, value);
  return view;
}

/// Receives from all other ranks, and what they wait for.
struct Exchange {
  explicit Exchange(const Communicator& communicator) : world(communicator) {
    for (int rank = 0; rank < world.size(); ++rank) {
      if (rank == world.rank()) continue;
      peers.push_back(rank);
      views.push_back(filled(-1));
      receives.push_back(kerkis::receive(Host(), world, views.back(), {.from = rank, .tag = 5}));
    }
  }
  void send() {
    for (const int peer : peers)
      sends.push_back(kerkis::send(Host(), world, filled(world.rank()), {.to = peer, .tag = 5}));
  }
  bool has_come(std::size_t i) const { return views[i](0) == peers[i] && views[i](99) == peers[i]; }

  Communicator world;
  std::vector<int> peers;
  std::vector<View> views;
  std::vector<Request> receives, sends;
};

TEST_CASE("ranges without anything pending") {
  std::vector<Request> requests;
  for (int round = 0; round < 2; ++round) {  // empty, then complete
    CHECK_NOTHROW(kerkis::wait_all(requests));
    CHECK(kerkis::wait_any(requests) == std::nullopt);
    CHECK(kerkis::wait_some(requests).empty());
    CHECK(kerkis::test_all(requests));
    CHECK(kerkis::test_any(requests) == std::nullopt);
    CHECK(kerkis::test_some(requests).empty());
    requests.resize(3);
  }
}

TEST_CASE("wait_all, on every kind of range") {
  const Communicator world(MPI_COMM_WORLD);
  const auto start = [&] { return kerkis::all_reduce(Host(), world, filled(1)); };
  std::array<Request, 3> array{start(), start(), Request()};
  kerkis::wait_all(array);
  CHECK(std::ranges::none_of(array, &Request::pending));

  std::list<Request> list;
  for (int i = 0; i < 5; ++i) list.push_back(start());
  kerkis::wait_all(list);
  CHECK(std::ranges::none_of(list, &Request::pending));

  std::vector<Request> vector;
  for (int i = 0; i < 5; ++i) vector.push_back(start());
  kerkis::wait_all(std::span(vector).first(2));
  kerkis::wait_all(std::views::drop(vector, 2));
  CHECK(std::ranges::none_of(vector, &Request::pending));

  struct Bucket {
    View view;
    Request request;
  };
  std::vector<Bucket> buckets;
  for (int i = 0; i < 4; ++i) {
    const View view = filled(i);
    buckets.push_back({view, kerkis::all_reduce(Host(), world, view)});
  }
  kerkis::wait_all(std::views::transform(buckets, &Bucket::request));
  for (int i = 0; i < 4; ++i) CHECK(buckets[static_cast<std::size_t>(i)].view(7) == i * world.size());

  Request a = start(), b = start();
  const std::vector<std::reference_wrapper<Request>> both{a, b};
  kerkis::wait_all(both);
  CHECK_FALSE(a.pending());
  a = start();
  kerkis::wait_all(a, b, start());
  CHECK_FALSE(a.pending());
}

TEST_CASE("wait_any sees each request once") {
  const Communicator world(MPI_COMM_WORLD);
  Exchange exchange(world);
  CHECK(kerkis::test_any(exchange.receives) == std::nullopt);
  if (world.size() > 1) {
    CHECK_FALSE(kerkis::test_all(exchange.receives));
    CHECK(std::ranges::all_of(exchange.receives, &Request::pending));
  }
  kerkis::barrier(world).wait();
  std::this_thread::sleep_for(world.rank() * 3ms);
  exchange.send();
  std::vector<bool> seen(exchange.peers.size());
  while (const auto i = kerkis::wait_any(exchange.receives)) {
    CHECK_FALSE(seen[*i]);
    seen[*i] = true;
    CHECK_FALSE(exchange.receives[*i].pending());
    CHECK(exchange.has_come(*i));
  }
  CHECK(std::ranges::find(seen, false) == seen.end());
  kerkis::wait_all(exchange.sends);
}

TEST_CASE("wait_some, test_some, test_any and test_all see each request once") {
  for (int kind = 0; kind < 4; ++kind) {
    CAPTURE(kind);
    const Communicator world(MPI_COMM_WORLD);
    Exchange exchange(world);
    auto& receives = exchange.receives;
    kerkis::barrier(world).wait();
    std::this_thread::sleep_for(world.rank() * 1ms);
    exchange.send();
    Indices seen;
    while (std::ranges::any_of(receives, &Request::pending)) {
      Indices found;
      if (kind == 0) {
        found = kerkis::wait_some(receives);
        CHECK_FALSE(found.empty());
      } else if (kind == 1) {
        found = kerkis::test_some(receives);
      } else if (kind == 2) {
        if (const auto i = kerkis::test_any(receives)) found.push_back(*i);
      } else if (kerkis::test_all(receives)) {
        for (std::size_t i = 0; i < receives.size(); ++i) found.push_back(i);
      }
      for (const std::size_t i : found) CHECK(exchange.has_come(i));
      seen.insert(seen.end(), found.begin(), found.end());
    }
    std::ranges::sort(seen);
    Indices all(receives.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    if (kind < 3 || !all.empty()) CHECK((kind == 3 || seen == all));
    kerkis::wait_all(exchange.sends);
  }
}

TEST_CASE("requests of several root communicators, awaited in another order on each rank") {
  kerkis::CommunicatorOptions options;
  options.largest_count = 64;  // operations of several steps, which others must move on
  const Communicator first(MPI_COMM_WORLD, "first", options), second(MPI_COMM_WORLD, "second", options);
  const Communicator part = first.split(0, 0, "part");
  for (int round = 0; round < 10; ++round) {
    const View a = filled(1, 1000), b = filled(2, 1000), c = filled(3, 1000);
    std::vector<Request> requests;
    requests.push_back(kerkis::all_reduce(Host(), first, a));
    requests.push_back(kerkis::all_reduce(Host(), second, b));
    requests.push_back(kerkis::all_reduce(Host(), part, c));
    std::ranges::rotate(requests, requests.begin() + (first.rank() + round) % 3);
    if (round % 2 == 0) {
      kerkis::wait_all(requests);
    } else {
      int count = 0;
      while (kerkis::wait_any(requests)) ++count;
      CHECK(count == (first.size() > 1 ? 3 : 0));
    }
    CHECK(a(999) == first.size());
    CHECK(b(999) == 2 * first.size());
    CHECK(c(999) == 3 * first.size());
  }
}

TEST_CASE("a cancelled receive is complete for the others") {
  const Communicator world(MPI_COMM_WORLD);
  if (world.size() == 1) return;
  const int next = (world.rank() + 1) % world.size(), before = (world.rank() + world.size() - 1) % world.size();
  const View never = filled(7), comes = filled(0);
  Request a = kerkis::receive(Host(), world, never, {.from = before, .tag = 1});
  Request b = kerkis::receive(Host(), world, comes, {.from = before, .tag = 2});
  CHECK(a.cancel());
  CHECK_FALSE(a.pending());
  CHECK_FALSE(a.cancel());
  Request c = kerkis::send(Host(), world, filled(3), {.to = next, .tag = 2});
  CHECK_FALSE(c.cancel());
  CHECK((kerkis::wait_any(a, b) == 1));
  c.wait();
  CHECK(never(0) == 7);
  CHECK(comes(0) == 3);
}

}  // namespace
