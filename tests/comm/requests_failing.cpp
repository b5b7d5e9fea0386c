// SPDX-License-Identifier: Apache-2.0
// Waits for several requests of which one fails, and requests that an exception abandons.
#include <doctest/doctest.h>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/request_range.hpp>

#include <chrono>
#include <stdexcept>
#include <string>
#include <vector>

#include "thrown.hpp"

using namespace std::chrono_literals;

namespace {

using kerkis::CommError;
using kerkis::Communicator;
using kerkis::PeerError;
using kerkis::Request;
using Host = Kokkos::DefaultHostExecutionSpace;
using View = Kokkos::View<int*, Kokkos::HostSpace>;

View ones(std::size_t count = 10) {
  View view("ones", count);
  Kokkos::deep_copy(view, 1);
  return view;
}

TEST_CASE("the first deadline ends the wait, and the error names what was awaited with it") {
  for (int kind = 0; kind < 3; ++kind) {
    CAPTURE(kind);
    const Communicator world(MPI_COMM_WORLD);
    const int other = world.rank() == 0 ? 1 : 0;
    if (world.rank() > 1) {
      CHECK(contains(thrown<PeerError>([&] { kerkis::barrier(world).wait(); }), "receive #2 of 10 int32 from rank"));
      continue;
    }
    std::vector<Request> requests;
    requests.push_back(kerkis::receive(Host(), world, ones(), {.from = other, .tag = 1}));
    requests.push_back(kerkis::receive(Host(), world, ones(), {.from = other, .tag = 2, .deadline = 200ms}));
    const std::string text = thrown<CommError>([&] {
      if (kind == 0) kerkis::wait_all(requests);
      if (kind == 1) static_cast<void>(kerkis::wait_any(requests));
      if (kind == 2) static_cast<void>(kerkis::wait_some(requests));
    });
    CHECK(contains(text, "receive #2 of 10 int32 from rank"));
    CHECK(contains(text, "; awaited with it: receive #1 of 10 int32 from rank"));
    CHECK(requests[0].pending());
    CHECK(thrown<CommError>([&] { static_cast<void>(kerkis::test_all(requests)); }) == text);
  }
}

TEST_CASE("a failure leaves the requests of other communicators as they are") {
  const Communicator failing(MPI_COMM_WORLD, "failing"), sound(MPI_COMM_WORLD, "sound");
  const View sum = ones(1000);
  std::vector<Request> requests;
  requests.push_back(kerkis::all_reduce(Host(), failing, ones()));  // completes all the same, or not
  if (failing.rank() != 0) requests.push_back(kerkis::receive(Host(), failing, ones(), {.from = 0}));
  requests.push_back(kerkis::barrier(sound));
  if (failing.rank() == 0) {
    requests[0].wait();
    failing.announce("gives up on purpose");
  }
  CHECK(contains(thrown<CommError>([&] {
                   kerkis::wait_all(requests);
                   failing.poll();
                 }),
                 "gives up on purpose"));
  if (failing.rank() != 0) CHECK(requests[1].pending());
  requests.back().wait();
  Request after = kerkis::all_reduce(Host(), sound, sum);
  CHECK((kerkis::wait_any(after) == 0));
  CHECK(sum(0) == sound.size());
}

TEST_CASE("what has failed never becomes complete") {
  const Communicator world(MPI_COMM_WORLD);
  if (world.rank() == 1) {
    std::vector<Request> requests;
    requests.push_back(kerkis::receive(Host(), world, ones(5), {.from = 0}));
    const std::string text = thrown<CommError>([&] { static_cast<void>(kerkis::wait_some(requests)); });
    CHECK(contains(text, "receive #1 of 5 int32 from rank 0"));
    for (int i = 0; i < 3; ++i) {
      CHECK(requests[0].pending());
      CHECK(thrown<CommError>([&] { requests[0].wait(); }) == text);
      CHECK(thrown<CommError>([&] { static_cast<void>(kerkis::test_some(requests)); }) == text);
    }
  } else {
    Request request;
    if (world.rank() == 0) request = kerkis::send(Host(), world, ones(50), {.to = 1});
    CHECK(contains(thrown<PeerError>([&] {
                     kerkis::wait_all(request);
                     kerkis::barrier(world).wait();
                   }),
                   "rank 1: receive #1 of 5 int32 from rank 0"));
  }
}

TEST_CASE("requests that an exception abandons, moved or not, wait for nothing") {
  const Communicator world(MPI_COMM_WORLD);
  const auto start = std::chrono::steady_clock::now();
  const std::string text = thrown<std::runtime_error>([&] {
    std::vector<Request> requests;
    View received = ones(100'000);
    const int next = (world.rank() + 1) % world.size();
    requests.push_back(kerkis::receive(Host(), world, received, {.from = next}));
    Request moved = std::move(requests.front());
    requests.push_back(kerkis::receive(Host(), world, received, {.from = next, .tag = 1}));
    throw std::runtime_error("on purpose");
  });
  CHECK(contains(text, "on purpose"));
  CHECK(world.poisoned());
  CHECK(std::chrono::steady_clock::now() - start < 10s);
  CHECK(contains(thrown<CommError>([&] { world.poll(); }), "an exception abandoned receive #"));
}

TEST_CASE("a request that outlives its failed communicator is given up quietly") {
  Request request, detached;
  {
    const Communicator world(MPI_COMM_WORLD);
    request = kerkis::receive(Host(), world, ones(), {.from = (world.rank() + 1) % world.size()});
    detached = kerkis::receive(Host(), world, ones(), {.from = (world.rank() + 1) % world.size(), .tag = 1});
    detached.detach();
    world.announce("on purpose");
  }
  CHECK(request.pending());
  CHECK_FALSE(detached.pending());
  CHECK(contains(thrown<CommError>([&] { request.wait(); }), "on purpose"));
}

}  // namespace
