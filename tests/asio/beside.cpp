// SPDX-License-Identifier: Apache-2.0
// A bridge on an io_context that has sockets, signals and timers too.
#include <doctest/doctest.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>

#include <chrono>
#include <csignal>
#include <ctime>
#include <vector>

#include "support.hpp"

using namespace std::chrono_literals;

namespace {

using namespace asio_test;
using net::ip::tcp;
using Clock = std::chrono::steady_clock;

TEST_CASE("all_reduces beside a TCP stream and a signal") {
  const Communicator world(MPI_COMM_WORLD);
  net::io_context io;
  Bridge bridge(io);

  tcp::acceptor acceptor(io, tcp::endpoint(net::ip::address_v4::loopback(), 0));
  tcp::socket near(io), far(io);
  near.connect(acceptor.local_endpoint());
  acceptor.accept(far);
  net::signal_set signals(io, SIGUSR1);
  int signals_seen = 0;
  signals.async_wait([&](const boost::system::error_code& error, int) { signals_seen += error ? 0 : 1; });

  std::vector<unsigned char> out(4 << 20), in(out.size());
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<unsigned char>(i * 7 + i / 1000);
  bool sent = false;
  std::size_t received = 0;
  net::async_write(near, net::buffer(out), [&](const boost::system::error_code& error, std::size_t) {
    CHECK_FALSE(error);
    sent = true;
  });
  net::async_read(far, net::buffer(in), [&](const boost::system::error_code& error, std::size_t count) {
    CHECK_FALSE(error);
    received = count;
  });
  int reduced = 0;
  run(io, [&]() -> net::awaitable<void> {
    for (int i = 0; i < 200; ++i) {
      const View view = filled(i, 1000);
      co_await bridge.async_wait(kerkis::all_reduce(Host(), world, view));
      reduced += all_are(view, i * world.size()) ? 1 : 0;
      if (i == 100) std::raise(SIGUSR1);
    }
  });
  CHECK(reduced == 200);
  CHECK(sent);
  CHECK(received == out.size());
  CHECK(in == out);
  CHECK(signals_seen == 1);
}

TEST_CASE("while it waits, the bridge lets timers run and leaves the core alone") {
  const Communicator world(MPI_COMM_WORLD);
  net::io_context io;
  Bridge bridge(io);
  if (world.rank() != 0 || world.size() == 1) {
    // Comes late, without a busy wait of its own.
    run(io, [&]() -> net::awaitable<void> {
      net::steady_timer timer(io, 600ms);
      co_await timer.async_wait(net::use_awaitable);
      co_await bridge.async_wait(kerkis::barrier(world));
    });
    return;
  }
  int ticks = 0;
  bool done = false;
  const auto start = Clock::now();
  const auto cpu = std::clock();
  bridge.async_wait(kerkis::barrier(world), [&](std::exception_ptr error) {
    CHECK(outcome(error) == "");
    done = true;
  });
  run(io, [&]() -> net::awaitable<void> {
    net::steady_timer timer(io);
    while (!done) {
      timer.expires_after(5ms);
      co_await timer.async_wait(net::use_awaitable);
      ++ticks;
    }
  });
  const double wall = std::chrono::duration<double>(Clock::now() - start).count();
  const double busy = static_cast<double>(std::clock() - cpu) / CLOCKS_PER_SEC;
  MESSAGE("busy for " << busy << " s of " << wall << " s, " << ticks << " ticks");
  CHECK(wall > 0.3);
  CHECK(ticks > 10);
  CHECK(busy < 0.7 * wall);
}

}  // namespace
