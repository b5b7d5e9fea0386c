// SPDX-License-Identifier: Apache-2.0
// Rounds of persistent operations that fail, and what is left of them then.
#include <doctest/doctest.h>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/persistent_collective.hpp>
#include <kerkis/comm/persistent_hand_off.hpp>

#include <chrono>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "captured_stderr.hpp"
#include "thrown.hpp"

using namespace std::chrono_literals;

namespace {

using kerkis::CommError;
using kerkis::Communicator;
using kerkis::message;
using kerkis::PeerError;
using kerkis::PersistentRequest;
using kerkis::Request;
using Host = Kokkos::DefaultHostExecutionSpace;
using View = Kokkos::View<int*, Kokkos::HostSpace>;

/// All of the kinds: in MPI's persistent form, and where the nonblocking operation is started anew in each round.
std::vector<kerkis::CommunicatorOptions> kinds() {
  return {{}, {.largest_count = 4}, {.stage = true}, {.check = true}};
}

View ones(std::size_t count = 10) {
  View view("ones", count);
  Kokkos::deep_copy(view, 1);
  return view;
}

void round(PersistentRequest& request) { request.start().wait(); }

TEST_CASE("a round after a failure throws what has failed") {
  for (const auto& options : kinds()) {
    const Communicator world(MPI_COMM_WORLD, "world", options);
    const int other = world.rank() == 0 ? 1 : 0;
    PersistentRequest receive =
        kerkis::persistent_receive(Host(), world, ones(), {.from = other, .deadline = world.rank() == 0 ? 200ms : 30s});
    std::string first;
    {
      Request comes;
      first = thrown<CommError>([&] {
        comes = receive.start();
        comes.wait();
      });
    }
    CHECK_MESSAGE(contains(first, "receive #1"), first);
    CHECK(thrown<CommError>([&] { static_cast<void>(receive.start()); }) == first);
  }
}

TEST_CASE("a rank that throws ends the rounds of the others with its words") {
  const Communicator sound(MPI_COMM_WORLD, "sound");
  for (const auto& options : kinds()) {
    const Communicator world(MPI_COMM_WORLD, "world", options);
    const int last = world.size() - 1;
    PersistentRequest sum = kerkis::persistent_all_reduce(Host(), world, ones());
    PersistentRequest copy = kerkis::persistent_broadcast(Host(), world, ones(), {.root = last});
    PersistentRequest receive;
    if (world.rank() != last) receive = kerkis::persistent_receive(Host(), world, ones(), {.from = last});
    round(sum);
    round(copy);
    Request sums, comes;
    if (world.rank() != last) {
      sums = sum.start();
      comes = receive.start();
    }
    kerkis::barrier(sound).wait();
    if (world.rank() == last) {
      CHECK(thrown<std::runtime_error>([&] { world.guard([] { throw std::runtime_error("out of data"); }); }) ==
            "out of data");
    } else {
      const std::string text = message("rank ", last, ": out of data");
      CHECK(thrown<PeerError>([&] { sums.wait(); }) == text);
      CHECK(thrown<PeerError>([&] { comes.wait(); }) == text);
      CHECK(sums.pending());
      CHECK(thrown<PeerError>([&] {
              while (!sums.test()) {
              }
            }) == text);
      CHECK(thrown<PeerError>([&] { (void)copy.start(); }) == text);
      CHECK(thrown<PeerError>([&] { (void)copy.start(); }) == text);  // no round is under way
      CHECK(thrown<PeerError>([&] { kerkis::persistent_all_reduce(Host(), world, ones()); }) == text);
      CHECK(thrown<PeerError>(
                [&] { round(receive = kerkis::persistent_receive(Host(), world, ones(), {.from = last})); }) == text);
    }
    CHECK(world.poisoned());
  }
}

TEST_CASE("a deadline in a round names the round, its place in the program, and who has not come") {
  const Communicator sound(MPI_COMM_WORLD, "sound");
  for (const auto& options : kinds()) {
    const Communicator world(MPI_COMM_WORLD, "world", options);
    const int last = world.size() - 1;
    kerkis::barrier(sound).wait();  // the making has that deadline too
    const int made = __LINE__ + 1;
    PersistentRequest sum = kerkis::persistent_all_reduce(Host(), world, ones(), {.deadline = 800ms});
    for (int i = 0; i < 3; ++i) round(sum);
    const auto number = world.state()->group->sequence;
    std::string text;
    if (world.rank() == last)
      text = thrown<PeerError>([&] {
        for (;;) world.poll();
      });
    else
      text = thrown<CommError>([&] { round(sum); });
    CHECK_MESSAGE(contains(text, message("all_reduce #", number + 1, " of 10 int32 over 'world', called at ")), text);
    CHECK_MESSAGE(contains(text, message("persistent_failing.cpp:", made, ", waited 0.8")), text);
    CHECK_MESSAGE(contains(text, message("; rank ", last, " has not come: rank ", last, " last entered all_reduce #",
                                         number, " at persistent_failing.cpp:", made)),
                  text);
  }
}

TEST_CASE("a deadline in a round of a hand-off") {
  for (const auto& options : kinds()) {
    const Communicator world(MPI_COMM_WORLD, "world", options);
    const int last = world.size() - 1;
    PersistentRequest repeated;
    if (world.rank() == 0)
      repeated = kerkis::persistent_receive(Host(), world, ones(), {.from = last, .deadline = 800ms});
    if (world.rank() == last) repeated = kerkis::persistent_send(Host(), world, ones(), {.to = 0});
    for (int i = 0; i < 3 && (world.rank() == 0 || world.rank() == last); ++i) round(repeated);
    std::string text;
    if (world.rank() == 0)
      text = thrown<CommError>([&] { round(repeated); });
    else
      text = thrown<PeerError>([&] {
        for (;;) world.poll();
      });
    CHECK_MESSAGE(contains(text, message("receive #4 of 10 int32 from rank ", last, " over 'world', called at ")),
                  text);
    CHECK_MESSAGE(contains(text, message(", waited 0.8 s; the message from rank ", last, " has not come: rank ", last,
                                         " last entered send #3 at persistent_failing")),
                  text);
  }
}

TEST_CASE("a message that is too long for its round") {
  const Communicator world(MPI_COMM_WORLD);
  std::string text;
  if (world.rank() == 0) {
    PersistentRequest receive = kerkis::persistent_receive(Host(), world, ones(3), {.from = 1});
    Request comes = receive.start();
    text = thrown<CommError>([&] { comes.wait(); });
    CHECK(comes.pending());
    CHECK(thrown<CommError>([&] { comes.wait(); }) == text);
    CHECK(thrown<CommError>([&] { (void)receive.start(); }) == text);
  } else {
    PersistentRequest send;
    if (world.rank() == 1) send = kerkis::persistent_send(Host(), world, ones(4), {.to = 0});
    text = thrown<PeerError>([&] {
      if (world.rank() == 1) round(send);
      kerkis::barrier(world).wait();
    });
  }
  CHECK_MESSAGE(contains(text, "receive #1 of 3 int32 from rank 1 over 'world'"), text);
  CHECK_MESSAGE(contains(text, "the message is longer than what was to receive it, or ends within an element"), text);
}

TEST_CASE("rounds that an exception abandons wait for nothing; what is between rounds is freed") {
  const Communicator sound(MPI_COMM_WORLD, "sound");
  for (const auto& options : kinds()) {
    const Communicator world(MPI_COMM_WORLD, "world", options);
    const int next = (world.rank() + 1) % world.size();
    const auto start = std::chrono::steady_clock::now();
    const std::string text = thrown<std::runtime_error>([&] {
      PersistentRequest idle = kerkis::persistent_broadcast(Host(), world, ones());
      PersistentRequest receive = kerkis::persistent_receive(Host(), world, ones(), {.from = next});
      const Request comes = receive.start();
      const PersistentRequest moved = std::move(receive);
      kerkis::barrier(sound).wait();
      throw std::runtime_error("on purpose");
    });
    CHECK(text == "on purpose");
    CHECK(world.poisoned());
    CHECK(std::chrono::steady_clock::now() - start < 10s);
    CHECK(
        contains(thrown<CommError>([&] { world.poll(); }), "an exception abandoned receive #1 of 10 int32 from rank "));
  }
}

TEST_CASE("a persistent operation that outlives its failed communicator") {
  for (const auto& options : kinds()) {
    PersistentRequest active, idle;
    Request comes;
    {
      const Communicator world(MPI_COMM_WORLD, "world", options);
      const int next = (world.rank() + 1) % world.size();
      active = kerkis::persistent_receive(Host(), world, ones(), {.from = next});
      idle = kerkis::persistent_all_reduce(Host(), world, ones());
      comes = active.start();
      round(idle);
      world.announce("failed on purpose");
    }
    CHECK(contains(thrown<CommError>([&] { comes.wait(); }), "failed on purpose"));
    CHECK(contains(thrown<CommError>([&] { (void)idle.start(); }), "failed on purpose"));
    CHECK(comes.pending());
  }
}

TEST_CASE("a destructor waits for its round, under the deadline, and says what it could not wait for") {
  const Communicator world(MPI_COMM_WORLD);
  const int last = world.size() - 1;
  std::string printed;
  if (world.rank() == 0) {
    CapturedStderr captured;
    {
      PersistentRequest receive = kerkis::persistent_receive(Host(), world, ones(), {.from = last, .deadline = 200ms});
      const Request comes = receive.start();
    }
    printed = captured.text();
    CHECK_MESSAGE(contains(printed, "kerkis: while a request was destroyed: receive #1 of 10 int32"), printed);
    CHECK(world.poisoned());
  } else {
    CHECK(contains(thrown<PeerError>([&] { kerkis::barrier(world).wait(); }), "rank 0: receive #1 of 10 int32"));
  }
}

}  // namespace
