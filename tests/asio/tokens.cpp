// SPDX-License-Identifier: Apache-2.0
// Every kind of completion token, and what is associated with a handler.
#include <doctest/doctest.h>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>

#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/persistent_collective.hpp>
#include <kerkis/comm/persistent_hand_off.hpp>
#include <kerkis/comm/reduce_scatter.hpp>

#include <memory>
#include <thread>
#include <vector>

#include "support.hpp"

namespace {

using namespace asio_test;

TEST_CASE("a callback") {
  const Communicator world(MPI_COMM_WORLD);
  net::io_context io;
  Bridge bridge(io);
  const View view = filled(1);
  int calls = 0;
  bridge.async_wait(kerkis::all_reduce(Host(), world, view), [&](std::exception_ptr error) {
    ++calls;
    CHECK(outcome(error) == "");
    CHECK(all_are(view, world.size()));
    CHECK(bridge.get_executor().running_in_this_thread());
  });
  CHECK(calls == 0);
  io.run();
  CHECK(calls == 1);
}

TEST_CASE("a callback that can only be moved, chained") {
  const Communicator world(MPI_COMM_WORLD);
  net::io_context io;
  Bridge bridge(io);
  int rounds = 0;
  struct Next {
    Bridge& bridge;
    const Communicator& world;
    int& rounds;
    std::unique_ptr<int> owned;
    void operator()(std::exception_ptr error) {
      CHECK(outcome(error) == "");
      if (++rounds < 10) bridge.async_wait(kerkis::barrier(world), std::move(*this));
    }
  };
  bridge.async_wait(kerkis::barrier(world), Next{bridge, world, rounds, std::make_unique<int>(3)});
  io.run();
  CHECK(rounds == 10);
}

TEST_CASE("rounds of persistent operations: a callback, co_await, async_start, a cancelled one that is started again") {
  for (const kerkis::CommunicatorOptions& options : {kerkis::CommunicatorOptions(), {.check = true}}) {
    const Communicator world(MPI_COMM_WORLD, "world", options);
    if (world.size() == 1) return;
    const int next = (world.rank() + 1) % world.size(), previous = (world.rank() + world.size() - 1) % world.size();
    const View out = filled(0), in = filled(0), sums = filled(1);
    auto send = kerkis::persistent_send(Host(), world, out, {.to = next});
    auto receive = kerkis::persistent_receive(Host(), world, in, {.from = previous});
    auto sum = kerkis::persistent_all_reduce(Host(), world, sums);
    net::io_context io;
    Bridge bridge(io);
    std::string withdrawn = "not called";
    bridge.async_wait(receive.start(), [&](std::exception_ptr error) { withdrawn = outcome(error); });
    bridge.cancel();
    io.run();
    CHECK(withdrawn == "operation_aborted");
    kerkis::barrier(world).wait();  // before anybody sends
    int rounds = 0;
    run(io, [&]() -> net::awaitable<void> {
      for (; rounds < 5; ++rounds) {
        Kokkos::deep_copy(out, 10 * rounds + world.rank());
        bool sent = false;
        bridge.async_wait(send.start(), [&](std::exception_ptr error) {
          CHECK(outcome(error) == "");
          sent = true;
        });
        co_await bridge.async_wait(receive.start());
        CHECK(all_are(in, 10 * rounds + previous));
        Kokkos::deep_copy(sums, 1);
        co_await bridge.async_start([&] { return sum.start(); });
        CHECK(all_are(sums, world.size()));
        while (!sent) co_await net::post(net::use_awaitable);
      }
    });
    CHECK(rounds == 5);
  }
}

TEST_CASE("co_await: by default, use_awaitable, as_tuple, a stored deferred one") {
  const Communicator world(MPI_COMM_WORLD);
  net::io_context io;
  Bridge bridge(io);
  int steps = 0;
  run(io, [&]() -> net::awaitable<void> {
    View view = filled(1);
    co_await bridge.async_wait(kerkis::all_reduce(Host(), world, view));
    CHECK(all_are(view, world.size()));
    ++steps;
    view = filled(2);
    co_await bridge.async_wait(kerkis::all_reduce(Host(), world, view), net::use_awaitable);
    CHECK(all_are(view, 2 * world.size()));
    ++steps;
    view = filled(3);
    const auto [error] =
        co_await bridge.async_wait(kerkis::all_reduce(Host(), world, view), net::as_tuple(net::use_awaitable));
    CHECK(outcome(error) == "");
    CHECK(all_are(view, 3 * world.size()));
    ++steps;
    view = filled(4);
    auto later = bridge.async_wait(kerkis::all_reduce(Host(), world, view), net::deferred);
    co_await std::move(later)(net::use_awaitable);
    CHECK(all_are(view, 4 * world.size()));
    ++steps;
  });
  CHECK(steps == 4);
}

TEST_CASE("use_future") {
  const Communicator world(MPI_COMM_WORLD);
  net::io_context io;
  Bridge bridge(io);
  const View view = filled(1);
  std::future<void> future = bridge.async_wait(kerkis::all_reduce(Host(), world, view), net::use_future);
  io.run();
  CHECK_NOTHROW(future.get());
  CHECK(all_are(view, world.size()));

  future =
      bridge.async_start([]() -> kerkis::Request { throw kerkis::InputError("no such operation"); }, net::use_future);
  io.restart();
  io.run();
  CHECK_THROWS_AS(future.get(), kerkis::InputError);
}

TEST_CASE("async_start: from the io_context, and its exception") {
  const Communicator world(MPI_COMM_WORLD);
  net::io_context io;
  Bridge bridge(io);
  run(io, [&]() -> net::awaitable<void> {
    const View view = filled(1);
    co_await bridge.async_start([&] {
      CHECK(bridge.get_executor().running_in_this_thread());
      return kerkis::all_reduce(Host(), world, view);
    });
    CHECK(all_are(view, world.size()));
    std::string text;
    const int line = __LINE__ + 2;
    try {
      co_await bridge.async_start([&] { return kerkis::send(Host(), world, view, {.to = 99}); });
    } catch (const kerkis::InputError& error) {
      text = error.what();
    }
    CHECK(text == kerkis::message("send called at tokens.cpp:", line, ": 99 is no other rank of 'world'"));
  });
}

TEST_CASE("every operation, several at once") {
  const Communicator world(MPI_COMM_WORLD);
  const int ranks = world.size(), rank = world.rank();
  net::io_context io;
  Bridge bridge(io);
  const auto extent = static_cast<std::size_t>(ranks);
  const View reduced = filled(1), copied = filled(rank), gathered("gathered", extent), block("block", 1);
  const View one = filled(rank, 1), from_left("from_left", 3), to_right = filled(rank, 3);
  int done = 0;
  const auto count = [&](std::exception_ptr error) {
    CHECK(outcome(error) == "");
    ++done;
  };
  if (ranks > 1) {
    bridge.async_wait(kerkis::receive(Host(), world, from_left, {.from = (rank + ranks - 1) % ranks}), count);
    bridge.async_wait(kerkis::send(Host(), world, to_right, {.to = (rank + 1) % ranks}), count);
  }
  bridge.async_wait(kerkis::all_reduce(Host(), world, reduced), count);
  bridge.async_wait(kerkis::broadcast(Host(), world, copied), count);
  bridge.async_wait(kerkis::all_gather(Host(), world, one, gathered), count);
  bridge.async_wait(kerkis::reduce_scatter(Host(), world, filled(1, extent), block), count);
  bridge.async_wait(kerkis::barrier(world), count);
  io.run();
  CHECK(done == (ranks > 1 ? 7 : 5));
  CHECK(all_are(reduced, ranks));
  CHECK(all_are(copied, 0));
  CHECK(all_are(block, ranks));
  for (int r = 0; r < ranks; ++r) CHECK(gathered(static_cast<std::size_t>(r)) == r);
  if (ranks > 1) CHECK(all_are(from_left, (rank + ranks - 1) % ranks));
}

TEST_CASE("a handler runs on its own executor, whose context is kept going") {
  const Communicator world(MPI_COMM_WORLD);
  net::io_context io, other;
  Bridge bridge(io);
  std::thread::id where;
  // Starts before there is work on `other`: it has none but what the bridge keeps for the handler.
  bridge.async_wait(kerkis::barrier(world), net::bind_executor(other, [&](std::exception_ptr error) {
                      CHECK(outcome(error) == "");
                      where = std::this_thread::get_id();
                    }));
  std::thread thread([&] { other.run(); });
  const auto expected = thread.get_id();
  io.run();
  thread.join();
  CHECK(where == expected);
}

/// Counts the bytes that are out.
template <class T>
struct Counting {
  using value_type = T;
  explicit Counting(std::ptrdiff_t* counter) : bytes(counter) {}
  template <class U>
  Counting(const Counting<U>& other) : bytes(other.bytes) {}
  T* allocate(std::size_t n) {
    *bytes += static_cast<std::ptrdiff_t>(n * sizeof(T));
    bytes[1] += 1;
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* pointer, std::size_t n) {
    *bytes -= static_cast<std::ptrdiff_t>(n * sizeof(T));
    std::allocator<T>().deallocate(pointer, n);
  }
  bool operator==(const Counting&) const = default;
  std::ptrdiff_t* bytes;
};

TEST_CASE("a handler's allocator is used, and all is returned before the handler runs") {
  const Communicator world(MPI_COMM_WORLD);
  net::io_context io;
  Bridge bridge(io);
  std::ptrdiff_t counters[2] = {};
  struct Handler {
    using allocator_type = Counting<void>;
    allocator_type get_allocator() const { return allocator_type(counters); }
    void operator()(const std::exception_ptr& error) const {
      CHECK(outcome(error) == "");
      CHECK(counters[0] == 0);
    }
    std::ptrdiff_t* counters;
  };
  bridge.async_wait(kerkis::barrier(world), Handler{counters});
  CHECK(counters[0] > 0);
  io.run();
  CHECK(counters[0] == 0);
  CHECK(counters[1] > 0);
}

}  // namespace
