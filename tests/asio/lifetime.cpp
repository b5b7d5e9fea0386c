// SPDX-License-Identifier: Apache-2.0
// run() ends when nothing is pending; bridges and io_contexts may end earlier.
#include <doctest/doctest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <vector>

#include "support.hpp"

using namespace std::chrono_literals;

namespace {

using namespace asio_test;

TEST_CASE("a bridge without work does not keep run() going") {
  net::io_context io;
  const Bridge bridge(io);
  CHECK(io.run() == 0);
}

TEST_CASE("an operation over one rank is complete at once, and its handler is still posted") {
  net::io_context io;
  Bridge bridge(io);
  bool called = false;
  bridge.async_wait(kerkis::barrier(Communicator()), [&](std::exception_ptr error) {
    called = true;
    CHECK(outcome(error) == "");
  });
  CHECK_FALSE(called);
  io.run();
  CHECK(called);
}

TEST_CASE("run() returns when nothing is pending, and not before") {
  const Communicator world(MPI_COMM_WORLD);
  if (world.size() == 1) return;
  net::io_context io;
  Bridge bridge(io);
  for (int round = 0; round < 3; ++round) {
    if (world.rank() == 0) {
      const View view = filled(0);
      bool called = false;
      bridge.async_wait(kerkis::receive(Host(), world, view, {.from = 1}), [&](std::exception_ptr error) {
        CHECK(outcome(error) == "");
        called = true;
      });
      io.restart();
      CHECK(io.run_for(20ms) > 0);
      CHECK_FALSE(io.stopped());
      CHECK_FALSE(called);
      kerkis::send(Host(), world, filled(1, 1), {.to = 1}).wait();
      io.run();
      CHECK(called);
      CHECK(all_are(view, 7));
    } else if (world.rank() == 1) {
      kerkis::receive(Host(), world, filled(0, 1), {.from = 0}).wait();
      kerkis::send(Host(), world, filled(7), {.to = 0}).wait();
    }
  }
}

TEST_CASE("a thousand operations") {
  const Communicator world(MPI_COMM_WORLD);
  const int ranks = world.size();
  net::io_context io;
  Bridge bridge(io);
  std::vector<View> views;
  int right = 0;
  for (int i = 0; i < 1000; ++i) {
    views.push_back(filled(i, 5));
    bridge.async_wait(kerkis::all_reduce(Host(), world, views.back()), [&, i](std::exception_ptr error) {
      right += outcome(error).empty() && all_are(views[static_cast<std::size_t>(i)], i * ranks) ? 1 : 0;
    });
  }
  io.run();
  CHECK(right == 1000);
}

TEST_CASE("the bridge ends while operations are pending: operation_aborted, and they go on") {
  const Communicator world(MPI_COMM_WORLD);
  if (world.size() == 1) return;
  net::io_context io;
  const View view = filled(1);
  std::vector<std::string> outcomes;
  const auto note = [&](std::exception_ptr error) { outcomes.push_back(outcome(error)); };
  {
    std::optional<Bridge> bridge(std::in_place, io);
    if (world.rank() == 0) {
      bridge->async_wait(kerkis::receive(Host(), world, filled(0), {.from = 1, .tag = 99}), note);  // never sent
      bridge->async_wait(kerkis::all_reduce(Host(), world, view), note);
    }
    io.poll();
    CHECK(outcomes.empty());
    if (world.rank() == 0) bridge.reset();
  }
  io.restart();
  io.run();
  if (world.rank() == 0) {
    REQUIRE(outcomes.size() == 2);
    CHECK(outcomes[0] == "operation_aborted");
    CHECK(outcomes[1] == "operation_aborted");
    CHECK(view.use_count() == 2);
    kerkis::send(Host(), world, filled(1, 1), {.to = 1}).wait();
  } else {
    if (world.rank() == 1) kerkis::receive(Host(), world, filled(0, 1), {.from = 0}).wait();
    kerkis::all_reduce(Host(), world, view).wait();
  }
  kerkis::barrier(world).wait();
  while (view.use_count() > 1) world.poll();
  CHECK(all_are(view, world.size()));
}

TEST_CASE("the io_context ends while operations are pending: handlers are dropped, operations go on") {
  const Communicator world(MPI_COMM_WORLD);
  if (world.size() == 1) return;
  const View view = filled(1);
  const auto alive = std::make_shared<int>();
  auto io = std::make_unique<net::io_context>();
  Bridge bridge(*io);
  std::optional<Bridge> unused(std::in_place, *io);
  bool called = false;
  const auto handler = [&called, alive](std::exception_ptr) { called = true; };
  if (world.rank() == 0) {
    bridge.async_wait(kerkis::receive(Host(), world, filled(0), {.from = 1, .tag = 99}), handler);
    bridge.async_wait(kerkis::all_reduce(Host(), world, view), handler);
    net::co_spawn(
        *io,
        [&, alive]() -> net::awaitable<void> {
          co_await bridge.async_wait(kerkis::receive(Host(), world, filled(0), {.from = 1, .tag = 98}));
        },
        handler);
    io->poll();
    bridge.async_start([&] { return kerkis::barrier(world); }, handler);  // never starts
  }
  io.reset();
  CHECK_FALSE(called);
  CHECK(alive.use_count() == 2);  // the lambda above
  CHECK_THROWS_AS(bridge.get_executor(), kerkis::InputError);
  CHECK_THROWS_AS(bridge.async_wait(kerkis::Request(), [](std::exception_ptr) {}), kerkis::InputError);
  bridge.cancel();
  unused.reset();
  if (world.rank() == 0) {
    kerkis::send(Host(), world, filled(1, 1), {.to = 1}).wait();
  } else {
    if (world.rank() == 1) kerkis::receive(Host(), world, filled(0, 1), {.from = 0}).wait();
    kerkis::all_reduce(Host(), world, view).wait();
  }
  // What is refused goes on, and harms nobody.
  CHECK_THROWS_AS(bridge.async_wait(kerkis::barrier(world), [](std::exception_ptr) {}), kerkis::InputError);
  kerkis::barrier(world).wait();
  CHECK_FALSE(world.poisoned());
  while (view.use_count() > 1) world.poll();
  CHECK(all_are(view, world.size()));
}

TEST_CASE("a coroutine that owns its bridge may be dropped with the io_context") {
  const Communicator world(MPI_COMM_WORLD);
  if (world.size() == 1) return;
  net::io_context io;
  net::co_spawn(
      io,
      [&]() -> net::awaitable<void> {
        Bridge own(io);
        co_await own.async_wait(kerkis::receive(Host(), world, filled(0), {.from = world.rank() == 0 ? 1 : 0}));
      },
      [](std::exception_ptr) {});
  io.poll();
}

}  // namespace
