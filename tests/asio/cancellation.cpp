// SPDX-License-Identifier: Apache-2.0
// A receive is withdrawn; anything else goes on while its wait ends.
#include <doctest/doctest.h>

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>

#include <chrono>

#include "support.hpp"

using namespace std::chrono_literals;

namespace {

using namespace asio_test;
using Type = net::cancellation_type;

/// Rank 0's second rank: what the others do is started by it.
void tell(const Communicator& world) { kerkis::send(Host(), world, filled(1, 1), {.to = 1, .tag = 5}).wait(); }
void hear(const Communicator& world) { kerkis::receive(Host(), world, filled(0, 1), {.from = 0, .tag = 5}).wait(); }

TEST_CASE("a receive is really withdrawn: the message goes to the next one") {
  const Communicator world(MPI_COMM_WORLD);
  if (world.size() == 1) return;
  if (world.rank() == 0) {
    for (const Type type : {Type::terminal, Type::partial, Type::total, Type::all}) {
      net::io_context io;
      Bridge bridge(io);
      net::cancellation_signal signal;
      const View withdrawn = filled(0), taken = filled(0);
      std::string first = "not called";
      bridge.async_wait(
          kerkis::receive(Host(), world, withdrawn, {.from = 1}),
          net::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr error) { first = outcome(error); }));
      CHECK(io.poll() > 0);
      signal.emit(type);
      CHECK(first == "not called");  // never inside emit
      io.run();
      CHECK(first == "operation_aborted");
      CHECK(withdrawn.use_count() == 1);
      tell(world);
      kerkis::receive(Host(), world, taken, {.from = 1}).wait();
      CHECK(all_are(withdrawn, 0));
      CHECK(all_are(taken, 7));
      signal.emit(type);  // finds nothing
    }
  } else if (world.rank() == 1) {
    for (int i = 0; i < 4; ++i) {
      hear(world);
      kerkis::send(Host(), world, filled(7), {.to = 0}).wait();
    }
  }
}

TEST_CASE("a receive whose message has come is complete, cancelled or not") {
  const Communicator world(MPI_COMM_WORLD);
  if (world.size() == 1) return;
  if (world.rank() == 0) {
    net::io_context io;
    Bridge bridge(io);
    net::cancellation_signal signal;
    const View view = filled(0);
    std::string first = "not called";
    auto request = kerkis::receive(Host(), world, view, {.from = 1});
    tell(world);
    hear(world.split(world.rank() <= 1 ? 0 : 1, -world.rank(), "pair"));
    bridge.async_wait(std::move(request), net::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr error) {
                        first = outcome(error);
                      }));
    signal.emit(Type::terminal);
    io.run();
    CHECK(first == "");
    CHECK(all_are(view, 7));
  } else {
    if (world.rank() == 1) {
      hear(world);
      kerkis::send(Host(), world, filled(7), {.to = 0}).wait();
    }
    const auto pair = world.split(world.rank() <= 1 ? 0 : 1, -world.rank(), "pair");
    if (world.rank() == 1) tell(pair);
  }
}

TEST_CASE("a collective goes on: its wait ends at once, its buffer lives") {
  const Communicator world(MPI_COMM_WORLD);
  if (world.size() == 1) return;
  const View view = filled(1);
  if (world.rank() == 0) {
    net::io_context io;
    Bridge bridge(io);
    net::cancellation_signal signal;
    std::string first = "not called";
    bridge.async_wait(
        kerkis::all_reduce(Host(), world, view),
        net::bind_cancellation_slot(signal.slot(), [&](std::exception_ptr error) { first = outcome(error); }));
    io.poll();
    signal.emit(Type::total);  // can't be without effect: not done
    CHECK(io.run_for(5ms) > 0);
    CHECK(first == "not called");
    signal.emit(Type::terminal);
    io.run();
    CHECK(first == "operation_aborted");
    CHECK(view.use_count() == 2);
    tell(world);
  } else {
    if (world.rank() == 1) hear(world);
    kerkis::all_reduce(Host(), world, view).wait();
  }
  kerkis::barrier(world).wait();
  while (view.use_count() > 1) world.poll();
  CHECK(all_are(view, world.size()));
}

TEST_CASE("|| with a timer, either way") {
  using namespace net::experimental::awaitable_operators;
  const Communicator world(MPI_COMM_WORLD);
  if (world.size() == 1) return;
  net::io_context io;
  Bridge bridge(io);
  if (world.rank() == 0) {
    run(io, [&]() -> net::awaitable<void> {
      net::steady_timer timer(io);
      const View view = filled(0);
      timer.expires_after(10ms);
      auto first = co_await (bridge.async_wait(kerkis::receive(Host(), world, view, {.from = 1}), net::use_awaitable) ||
                             timer.async_wait(net::use_awaitable));
      CHECK(first.index() == 1);
      CHECK(view.use_count() == 1);
      tell(world);
      timer.expires_after(60s);
      first = co_await (bridge.async_wait(kerkis::receive(Host(), world, view, {.from = 1}), net::use_awaitable) ||
                        timer.async_wait(net::use_awaitable));
      CHECK(first.index() == 0);
      CHECK(all_are(view, 7));
    });
  } else if (world.rank() == 1) {
    hear(world);
    kerkis::send(Host(), world, filled(7), {.to = 0}).wait();
  }
}

TEST_CASE("&& of two operations") {
  using namespace net::experimental::awaitable_operators;
  const Communicator world(MPI_COMM_WORLD);
  net::io_context io;
  Bridge bridge(io);
  run(io, [&]() -> net::awaitable<void> {
    const View a = filled(1), b = filled(2);
    co_await (bridge.async_wait(kerkis::all_reduce(Host(), world, a), net::use_awaitable) &&
              bridge.async_wait(kerkis::all_reduce(Host(), world, b), net::use_awaitable));
    CHECK(all_are(a, world.size()));
    CHECK(all_are(b, 2 * world.size()));
  });
}

TEST_CASE("cancel() ends all waits, and the bridge goes on") {
  const Communicator world(MPI_COMM_WORLD);
  net::io_context io;
  Bridge bridge(io);
  int aborted = 0;
  if (world.rank() == 0 && world.size() > 1)
    for (int i = 0; i < 100; ++i)
      bridge.async_wait(kerkis::receive(Host(), world, filled(0), {.from = 1, .tag = 9}),
                        [&](std::exception_ptr error) { aborted += outcome(error) == "operation_aborted" ? 1 : 0; });
  io.poll();
  bridge.cancel();
  io.restart();
  io.run();
  CHECK(aborted == (world.rank() == 0 && world.size() > 1 ? 100 : 0));
  run(io, [&]() -> net::awaitable<void> { co_await bridge.async_wait(kerkis::barrier(world)); });
}

}  // namespace
