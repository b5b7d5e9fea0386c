// SPDX-License-Identifier: Apache-2.0
// What a request owns, and for how long.
#include <doctest/doctest.h>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/broadcast.hpp>

#include <type_traits>
#include <utility>
#include <vector>

namespace {

using kerkis::Communicator;
using kerkis::Request;
using Host = Kokkos::DefaultHostExecutionSpace;
using View = Kokkos::View<int*, Kokkos::HostSpace>;

static_assert(!std::is_copy_constructible_v<Request> && !std::is_copy_assignable_v<Request>);
static_assert(std::is_nothrow_move_constructible_v<Request> && std::is_nothrow_move_assignable_v<Request>);

View ones(std::size_t count = 1000) {
  View view("ones", count);
  Kokkos::deep_copy(view, 1);
  return view;
}

bool all_are(const View& view, int value) {
  for (std::size_t i = 0; i < view.extent(0); ++i)
    if (view(i) != value) return false;
  return true;
}

TEST_CASE("a default request is complete") {
  Request request;
  CHECK_FALSE(request.pending());
  CHECK(request.test());
  CHECK_NOTHROW(request.wait());
}

TEST_CASE("a request can be tested until it is complete, and waited for twice") {
  const Communicator world(MPI_COMM_WORLD);
  const View view = ones();
  Request request = kerkis::all_reduce(Host(), world, view);
  while (!request.test()) {
  }
  CHECK_FALSE(request.pending());
  CHECK_NOTHROW(request.wait());
  CHECK(all_are(view, world.size()));
}

TEST_CASE("a moved request is the one that waits") {
  const Communicator world(MPI_COMM_WORLD);
  const View a = ones(), b = ones();
  Request first = kerkis::all_reduce(Host(), world, a);
  Request moved = std::move(first);
  CHECK_FALSE(first.pending());
  moved = kerkis::all_reduce(Host(), world, b);  // waits for the first
  CHECK(all_are(a, world.size()));
  moved.wait();
  CHECK(all_are(b, world.size()));

  std::vector<Request> many;
  const View c = ones();
  for (int i = 0; i < 20; ++i) many.push_back(kerkis::all_reduce(Host(), world, ones()));
  many.push_back(kerkis::all_reduce(Host(), world, c));
  many.clear();
  CHECK(all_are(c, world.size()));
}

TEST_CASE("a dropped request waits") {
  const Communicator world(MPI_COMM_WORLD);
  const View view = ones();
  {
    const Request dropped = kerkis::all_reduce(Host(), world, view);
  }
  CHECK(all_are(view, world.size()));
}

TEST_CASE("a request outlives its communicator") {
  const View view = ones();
  Request request;
  int ranks = 0;
  {
    const Communicator world(MPI_COMM_WORLD);
    ranks = world.size();
    const Communicator part = world.split(0, 0, "part");
    request = kerkis::all_reduce(Host(), part, view);
  }
  request.wait();
  CHECK(all_are(view, ranks));
}

TEST_CASE("a detached request goes on without its handle, and ends with its communicator at the latest") {
  const View polled = ones(), closed = ones();
  int ranks = 0;
  {
    const Communicator world(MPI_COMM_WORLD);
    ranks = world.size();
    Request request = kerkis::all_reduce(Host(), world, polled);
    request.detach();
    CHECK_FALSE(request.pending());
    CHECK_NOTHROW(request.wait());
    request.detach();
    while (polled.use_count() > 1) world.poll();
    CHECK(all_are(polled, ranks));
    request = kerkis::all_reduce(Host(), world, closed);
    request.detach();
  }
  CHECK(closed.use_count() == 1);
  CHECK(all_are(closed, ranks));
}

TEST_CASE("a collective cannot be cancelled") {
  const Communicator world(MPI_COMM_WORLD);
  const View view = ones();
  Request request = kerkis::all_reduce(Host(), world, view);
  CHECK_FALSE(request.cancel());
  CHECK(request.text().empty() == (world.size() == 1));
  request.wait();
  CHECK(request.text().empty());
  CHECK(all_are(view, world.size()));
}

TEST_CASE("a request keeps managed Views alive, and unmanaged ones are the caller's") {
  const Communicator world(MPI_COMM_WORLD);
  Request request;
  {
    const View dropped = ones(200'000);
    request = kerkis::broadcast(Host(), world, dropped);
  }
  request.wait();

  const View kept = ones();
  request = kerkis::all_reduce(Host(), world, kept);
  CHECK(kept.use_count() == (world.size() > 1 ? 2 : 1));
  request.wait();
  CHECK(kept.use_count() == 1);
  request = kerkis::all_reduce(
      Host(), world, Kokkos::View<int*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>(kept.data(), kept.size()));
  CHECK(kept.use_count() == 1);
  request.wait();
}

}  // namespace
