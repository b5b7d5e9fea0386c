// SPDX-License-Identifier: Apache-2.0
// What fails reaches the handlers that wait, and no wait is blind.
#include <doctest/doctest.h>

#include <chrono>
#include <string>
#include <thread>

#include <comm/captured_stderr.hpp>
#include <comm/thrown.hpp>

#include "support.hpp"

using namespace std::chrono_literals;

namespace {

using namespace asio_test;
using kerkis::message;

// First: communicators are poisoned below.
TEST_CASE("another thread than the one that initialised MPI is refused below MPI_THREAD_SERIALIZED") {
  const Communicator world(MPI_COMM_WORLD);
  int level = MPI_THREAD_MULTIPLE;
  MPI_Query_thread(&level);
  if (level >= MPI_THREAD_SERIALIZED) return;
  net::io_context io;
  Bridge bridge(io);
  std::string waited, started;
  bridge.async_wait(kerkis::barrier(world), [&](std::exception_ptr error) { waited = outcome(error); });
  bridge.async_start([&] { return kerkis::barrier(world); },
                     [&](std::exception_ptr error) { started = outcome(error); });
  std::thread([&] { io.run(); }).join();
  CHECK(contains(waited, "MPI_THREAD_SERIALIZED"));
  CHECK(contains(started, "MPI_THREAD_SERIALIZED"));
  run(io, [&]() -> net::awaitable<void> { co_await bridge.async_wait(kerkis::barrier(world)); });
}

TEST_CASE("a rank announces a failure: the others' handlers get its words") {
  const Communicator world(MPI_COMM_WORLD);
  net::io_context io;
  Bridge bridge(io);
  if (world.rank() == 0) {
    world.announce("failed on purpose");
    return;
  }
  std::string collective, receive;
  int rank = -1;
  bridge.async_wait(kerkis::receive(Host(), world, filled(0), {.from = 0}),
                    [&](std::exception_ptr error) { receive = outcome(error); });
  run(io, [&]() -> net::awaitable<void> {
    try {
      co_await bridge.async_wait(kerkis::barrier(world));
    } catch (const kerkis::PeerError& error) {
      collective = error.what();
      rank = error.rank();
    }
  });
  CHECK(collective == "rank 0: failed on purpose");
  CHECK(receive == "rank 0: failed on purpose");
  CHECK(rank == 0);
}

/// Rank 0 waits in vain; if `busy`, messages of rank 1 keep its bridge from ever being idle.
void expire(bool busy) {
  const Communicator world(MPI_COMM_WORLD);
  if (world.size() == 1) return;
  net::io_context io;
  Bridge bridge(io);
  const std::string expected = "receive #1 of 100 int32 from rank 1 over 'world', called at failures.cpp:";
  std::string text;
  if (world.rank() != 0) {
    run(io, [&]() -> net::awaitable<void> {
      try {
        while (busy && world.rank() == 1) {
          co_await bridge.async_wait(kerkis::send(Host(), world, filled(0), {.to = 0, .tag = 3}));
          co_await bridge.async_wait(kerkis::receive(Host(), world, filled(0), {.from = 0, .tag = 3}));
        }
        co_await bridge.async_wait(kerkis::barrier(world, {.deadline = 60s}));
      } catch (const kerkis::PeerError& error) {
        text = error.what();
      }
    });
    CHECK(contains(text, "rank 0: " + expected));
    return;
  }
  bridge.async_wait(kerkis::receive(Host(), world, filled(0), {.from = 1, .deadline = 200ms}),
                    [&](std::exception_ptr error) { text = outcome(error); });
  int messages = 0;
  run(io, [&]() -> net::awaitable<void> {
    try {
      while (busy && text.empty()) {
        co_await bridge.async_wait(kerkis::receive(Host(), world, filled(0), {.from = 1, .tag = 3}));
        co_await bridge.async_wait(kerkis::send(Host(), world, filled(0), {.to = 1, .tag = 3}));
        ++messages;
      }
    } catch (const kerkis::CommError&) {
    }
  });
  CHECK(contains(text, expected));
  CHECK(contains(text, ", waited 0.2"));
  CHECK((messages > 10) == busy);
}

TEST_CASE("a deadline, while nothing else happens") { expire(false); }
TEST_CASE("a deadline, while other operations keep the bridge busy") { expire(true); }

TEST_CASE("a first report is a line on stderr for each operation, and the waits go on") {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Communicator world(MPI_COMM_WORLD, "world", {.wait = {.first_report = 200ms, .deadline = 30s}});
  net::io_context io;
  Bridge bridge(io);
  const View view = filled(rank);
  const bool late = rank == ranks - 1;
  if (late) std::this_thread::sleep_for(1500ms);
  CapturedStderr captured;
  std::string received;
  if (rank == 0 && !late)
    bridge.async_wait(kerkis::receive(Host(), world, view, {.from = ranks - 1}),
                      [&](std::exception_ptr error) { received = outcome(error); });
  run(io, [&]() -> net::awaitable<void> {
    co_await bridge.async_wait(kerkis::barrier(world));
    if (late && ranks > 1) co_await bridge.async_wait(kerkis::send(Host(), world, view, {.to = 0}));
  });
  const std::string text = captured.text();
  CHECK_MESSAGE((late || contains(text, message("kerkis: rank ", rank, " still waits: barrier #1 over 'world'"))),
                text);
  CHECK_MESSAGE((late || contains(text, message("; rank ", ranks - 1, " has not come: rank ", ranks - 1))), text);
  CHECK_MESSAGE(text.find("still waits: barrier") == text.rfind("still waits: barrier"), text);
  if (rank == 0 && !late) {
    CHECK_MESSAGE(contains(text, "kerkis: rank 0 still waits: receive #1 of 100 int32 from rank "), text);
    CHECK(received.empty());
    CHECK(all_are(view, ranks - 1));
  }
}

TEST_CASE("an operation on a poisoned communicator") {
  const Communicator world(MPI_COMM_WORLD);
  world.announce("failed here");
  net::io_context io;
  Bridge bridge(io);
  std::string text;
  run(io, [&]() -> net::awaitable<void> {
    try {
      co_await bridge.async_start([&] { return kerkis::barrier(world); });
    } catch (const kerkis::CommError& error) {
      text = error.what();
    }
  });
  CHECK((world.size() == 1 || contains(text, "failed here")));
}

}  // namespace
