// SPDX-License-Identifier: Apache-2.0
// No wait is blind: deadlines, what other ranks hear, and what is left of a poisoned communicator.
#include <doctest/doctest.h>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/exchange.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/persistent_hand_off.hpp>

#include <chrono>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>

#include "thrown.hpp"

using namespace std::chrono_literals;

namespace {

using kerkis::CommError;
using kerkis::Communicator;
using kerkis::PeerError;
using kerkis::Request;
using Host = Kokkos::DefaultHostExecutionSpace;
using View = Kokkos::View<double*, Kokkos::HostSpace>;

constexpr kerkis::CommunicatorOptions patient{.wait = {.deadline = 30s}};

/// A poisoned communicator says why at every new operation.
void check_refuses(const Communicator& communicator, const std::string& text) {
  CHECK(thrown<CommError>([&] { kerkis::barrier(communicator).wait(); }) == text);
  CHECK(thrown<CommError>([&] { kerkis::all_reduce(Host(), communicator, View("view", 3)).wait(); }) == text);
  CHECK(thrown<CommError>([&] { communicator.poll(); }) == text);
}

/// An exception leaves `scope` and is caught: the communicator works on.
template <class Scope>
void check_survives(const Communicator& communicator, Scope&& scope) {
  CHECK_THROWS_AS(scope(), std::range_error);
  CHECK_FALSE(communicator.poisoned());
  CHECK_NOTHROW(kerkis::barrier(communicator).wait());
}

TEST_CASE("a collective that a rank does not join") {
  const Communicator world(MPI_COMM_WORLD, "world", patient);
  const int last = world.size() - 1;
  const Communicator data = world.split(0, world.rank(), "data");
  std::string text, expected;
  if (world.rank() == 0) {
    try {
      kerkis::all_reduce(Host(), data, View("view", 5), {.deadline = 300ms}).wait();
      FAIL_CHECK("no deadline");
    } catch (const CommError& error) {
      text = error.what();
      CHECK(error.rank() == 0);
      CHECK(error.operation() == "all_reduce");
    }
    CHECK(contains(text, "all_reduce #1 of 5 double over 'data', called at failures.cpp:"));
    CHECK(contains(text, ", waited 0.3 s"));
  } else if (world.rank() == last) {
    text = thrown<PeerError>([&] { kerkis::barrier(world).wait(); });  // is somewhere else
  } else {
    text = thrown<PeerError>([&] { kerkis::all_reduce(Host(), data, View("view", 5)).wait(); });
  }
  if (world.rank() != 0)
    CHECK(contains(text, "rank 0: all_reduce #1 of 5 double over 'data', called at failures.cpp:"));
  check_refuses(world, text);
  check_refuses(data, text);
}

TEST_CASE("a message that does not come: the deadline is the communicator's") {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Communicator world(MPI_COMM_WORLD, "chain", {.wait = {.deadline = rank == ranks - 1 ? 300ms : 30000ms}});
  const int last = world.size() - 1;
  std::string text;
  if (world.rank() == last) {
    text = thrown<CommError>([&] { kerkis::receive(Host(), world, View("view", 3), {.from = 0}).wait(); });
    CHECK(contains(text, "receive #1 of 3 double from rank 0 over 'chain', called at failures.cpp:"));
  } else {
    text = thrown<PeerError>([&] { kerkis::barrier(world).wait(); });
    CHECK(contains(text, kerkis::message("rank ", last, ": receive #1 of 3 double from rank 0 over 'chain'")));
  }
  check_refuses(world, text);
}

TEST_CASE("a split that a rank does not join") {
  const Communicator world(MPI_COMM_WORLD, "world", {.wait = {.deadline = 300ms}});
  if (world.rank() == 0)
    CHECK(contains(thrown<CommError>([&] { world.split(0, 0, "part"); }),
                   "split #1 over 'world', called at failures.cpp:"));
  else
    CHECK(contains(thrown<PeerError>(
                       [&] { kerkis::receive(Host(), world, View("view", 1), {.from = 0, .deadline = 30s}).wait(); }),
                   "rank 0: split #1"));
}

TEST_CASE("what a rank throws in its guard, the waits of the others throw") {
  const Communicator world(MPI_COMM_WORLD, "world", patient);
  const int last = world.size() - 1;
  const Communicator parts = world.split(world.rank() == last ? 1 : 0, 0, "parts");
  if (world.rank() == last) {
    CHECK_THROWS_WITH_AS(world.guard([] { throw std::range_error("NaN in block 3"); }), "NaN in block 3",
                         std::range_error);
    check_refuses(world, "NaN in block 3");
  } else {
    const std::string text = thrown<PeerError>([&] { kerkis::barrier(world).wait(); });
    CHECK(text == kerkis::message("rank ", last, ": NaN in block 3"));
    check_refuses(world, text);
  }
}

TEST_CASE("the others hear what was thrown in a guard, also if it has abandoned operations on its way") {
  for (const bool persistent : {false, true}) {
    const Communicator world(MPI_COMM_WORLD, "world", patient);
    if (world.rank() == 0) {
      const View view("view", 3);
      CHECK_THROWS_WITH_AS(world.guard([&] {
        auto again = kerkis::persistent_receive(Host(), world, view, {.from = 1});
        Request once;
        once = persistent ? again.start() : kerkis::receive(Host(), world, view, {.from = 1});
        throw std::range_error("NaN in block 3");
      }),
                           "NaN in block 3", std::range_error);
      check_refuses(world, "NaN in block 3");
    } else {
      CHECK(thrown<PeerError>([&] { kerkis::barrier(world).wait(); }) == "rank 0: NaN in block 3");
    }
  }
}

TEST_CASE("what an exception has abandoned in a guard is announced where that exception does not leave it") {
  const Communicator world(MPI_COMM_WORLD, "world", patient);
  if (world.rank() == 0) {
    const View view("view", 3);
    world.guard([&] {
      try {
        const Request request = kerkis::receive(Host(), world, view, {.from = 1});
        throw std::range_error("caught");
      } catch (const std::range_error&) {
      }
      CHECK_FALSE(world.poisoned());
    });
    CHECK(world.poisoned());
  } else {
    CHECK(contains(thrown<PeerError>([&] { kerkis::barrier(world).wait(); }),
                   "rank 0: an exception abandoned receive #1"));
  }
}

TEST_CASE("a program that holds only a part, and leaves it by an exception") {
  std::string text;
  try {
    const Communicator part = Communicator(MPI_COMM_WORLD, "root", patient).split(0, 0, "part");
    if (part.rank() == 0) throw std::range_error("bad input");
    text = thrown<PeerError>([&] { kerkis::barrier(part).wait(); });
    CHECK(text == "rank 0: left its communicator by an exception");
  } catch (const std::range_error&) {
  }
}

TEST_CASE("a rank that comes to a split when another has failed, and the rest have left it") {
  const Communicator world(MPI_COMM_WORLD, "world", patient);
  const int last = world.size() - 1;
  if (last < 2) return;
  const Communicator part = world.split(world.rank() == last ? 1 : 0, 0, "part");
  if (world.rank() == last) {
    std::this_thread::sleep_for(200ms);
    CHECK_THROWS_AS(world.guard([] { throw std::range_error("no more food"); }), std::range_error);
  } else {
    if (world.rank() == 1) std::this_thread::sleep_for(600ms);
    CHECK(thrown<PeerError>([&] { static_cast<void>(part.split(0, 0, "of part")); }) ==
          kerkis::message("rank ", last, ": no more food"));
  }
}

TEST_CASE("a rank that comes to a split when its deadline has passed for the others") {
  const Communicator together(MPI_COMM_WORLD, "together", patient);
  kerkis::barrier(together).wait();
  const Communicator world(MPI_COMM_WORLD, "world", {.wait = {.deadline = 700ms}});
  if (world.rank() == 1) {
    std::this_thread::sleep_for(1500ms);
    CHECK(contains(thrown<PeerError>([&] { static_cast<void>(world.split(0, 0, "late")); }), "split #1"));
  } else {
    CHECK(contains(thrown<CommError>([&] { static_cast<void>(world.split(0, 0, "late")); }), "split #1"));
  }
}

TEST_CASE("a persistent round that a destructor makes and ends while an exception unwinds") {
  const Communicator world(MPI_COMM_WORLD, "world", patient);
  struct Receives {
    ~Receives() {
      const View view("view", 2);
      if (world.rank() == 0) {
        auto again = kerkis::persistent_receive(Host(), world, view, {.from = 1});
        const Request round = again.start();
      } else if (world.rank() == 1) {
        kerkis::send(Host(), world, view, {.to = 0}).wait();
      }
    }
    const Communicator& world;
  };
  check_survives(world, [&] {
    const Receives receives{world};
    throw std::range_error("local");
  });
}

TEST_CASE("a complete request that an exception destroys, and one that a destructor makes and ends meanwhile") {
  const Communicator world(MPI_COMM_WORLD, "world", patient);
  const View one("one", 1);
  struct Meets {
    ~Meets() { kerkis::barrier(world).wait(); }
    const Communicator& world;
  };
  check_survives(world, [&] {
    const Meets meets{world};
    Request request = world.rank() == 0   ? kerkis::send(Host(), world, one, {.to = 1})
                      : world.rank() == 1 ? kerkis::receive(Host(), world, one, {.from = 0})
                                          : Request();
    kerkis::barrier(world).wait();  // it is complete, but nobody has seen it
    throw std::range_error("local");
  });
}

TEST_CASE("the others hear of an exception that is no std::exception too") {
  const Communicator world(MPI_COMM_WORLD, "world", patient);
  const auto hear = [&] {
    while (true) world.poll();
  };
  if (world.rank() == 0)
    CHECK_THROWS_AS(world.guard([] { throw 42; }), int);
  else
    CHECK(thrown<PeerError>(hear) == "rank 0: an exception that is no std::exception");
}

TEST_CASE("guard gives back what its function gives") {
  const Communicator world(MPI_COMM_WORLD);
  int value = 3;
  int& same = world.guard([&]() -> int& { return value; });
  CHECK(&same == &value);
  CHECK_NOTHROW(world.guard([] {}));
  CHECK_NOTHROW(kerkis::barrier(world).wait());
}

TEST_CASE("a request that an exception destroys does not wait, and the others hear of it") {
  const Communicator world(MPI_COMM_WORLD, "world", patient);
  if (world.rank() == 0) {
    try {
      const View dropped("dropped", 4);
      const auto request = kerkis::receive(Host(), world, dropped, {.from = 1});
      throw std::runtime_error("away");
    } catch (const std::runtime_error& error) {
      CHECK(std::string(error.what()) == "away");
    }
    CHECK(contains(thrown<CommError>([&] { world.poll(); }),
                   "an exception abandoned receive #1 of 4 double from rank 1"));
  } else {
    CHECK(contains(thrown<PeerError>([&] { kerkis::barrier(world).wait(); }),
                   "rank 0: an exception abandoned receive #1 of 4 double from rank 1"));
  }
}

TEST_CASE("a communicator that an exception destroys tells the others") {
  const auto body = [](bool fails) {
    const Communicator world(MPI_COMM_WORLD, "world", patient);
    if (fails) throw std::runtime_error("away");
    kerkis::barrier(world).wait();
  };
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank == ranks - 1)
    CHECK_THROWS_WITH_AS(body(true), "away", std::runtime_error);
  else
    CHECK(thrown<PeerError>([&] { body(false); }) ==
          kerkis::message("rank ", ranks - 1, ": left its communicator by an exception"));
}

TEST_CASE("a failure is its communicator's own: another one still works") {
  const Communicator failed(MPI_COMM_WORLD, "failed", patient), sound(MPI_COMM_WORLD);
  if (failed.rank() == 0) failed.announce("broken");
  if (failed.rank() != 0) CHECK(thrown<PeerError>([&] { kerkis::barrier(failed).wait(); }) == "rank 0: broken");
  CHECK_NOTHROW(kerkis::barrier(sound).wait());
  if (failed.rank() == 0) CHECK(thrown<CommError>([&] { failed.poll(); }) == "broken");
}

TEST_CASE("a failure keeps what is known of it, on every rank and every time") {
  for (const bool by_mpi : {false, true}) {
    const Communicator world(MPI_COMM_WORLD, "world", patient);
    const int last = world.size() - 1, line = __LINE__ + 2;
    const kerkis::ReceiveOptions options{.from = last, .deadline = 300ms};
    const auto receive = [&] { return kerkis::receive(Host(), world, View("two", 2), options); };
    if (by_mpi && world.rank() == last) kerkis::send(Host(), world, View("long", 8), {.to = 0}).wait();
    for (int time = 0; time < 2; ++time) {
      try {
        if (world.rank() == 0 && time == 0) receive().wait();
        kerkis::barrier(world).wait();
        FAIL_CHECK("no failure");
      } catch (const CommError& error) {
        const std::string text = error.what();
        CHECK(error.rank() == 0);
        CHECK(error.operation() == "receive");
        CHECK(error.mpi_class() == (by_mpi ? MPI_ERR_TRUNCATE : MPI_SUCCESS));
        CHECK(error.axis() == "world");
        CHECK(error.peer() == last);
        CHECK(error.where().line() == static_cast<unsigned>(world.rank() == 0 ? line : 0));
        CHECK((dynamic_cast<const PeerError*>(&error) != nullptr) == (world.rank() != 0));
        CHECK_MESSAGE(!contains(text, "\n"), text);
        CHECK_MESSAGE(!contains(text, "0x"), text);
        CHECK(text.find("receive #1") == (world.rank() == 0 ? 0 : std::string("rank 0: ").size()));
        const char* const words = "the message is longer than what was to receive it, or ends within an element: ";
        if (by_mpi) CHECK_MESSAGE(contains(text, words), text);
      }
    }
  }
}

TEST_CASE("an error of MPI is a CommError with its class, and poisons") {
  const Communicator world(MPI_COMM_WORLD, "world", patient);
  const std::string words = "receive #1 of 2 double from rank 1 over 'world', called at failures.cpp:";
  if (world.rank() == 1) kerkis::send(Host(), world, View("long", 8), {.to = 0}).wait();
  if (world.rank() == 0) {
    std::string text;
    try {
      kerkis::receive(Host(), world, View("short", 2), {.from = 1}).wait();
      FAIL_CHECK("the message does not fit");
    } catch (const CommError& error) {
      text = error.what();
      CHECK(error.mpi_class() == MPI_ERR_TRUNCATE);
      CHECK(error.operation() == "receive");
      CHECK(error.rank() == 0);
    }
    CHECK(contains(text, words));
    check_refuses(world, text);
  } else {
    CHECK(contains(thrown<PeerError>([&] { kerkis::barrier(world).wait(); }), "rank 0: " + words));
  }
}

TEST_CASE("a message that is no whole number of the receiver's elements") {
  const Kokkos::View<char*, Kokkos::HostSpace> bytes("bytes", 5);
  const Kokkos::View<double**, Kokkos::HostSpace> doubles("doubles", 3, 3);
  const auto column = Kokkos::subview(doubles, Kokkos::ALL, 1);
  const View run("run", 3), none("none", 0);
  const Kokkos::View<double*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> unmanaged(run.data(), 3);
  struct Pair {
    int first, second;
  };
  const Kokkos::View<Pair*, Kokkos::HostSpace> pairs("pairs", 3);
  kerkis::Received received;
  using Receives = std::function<void(const Communicator&)>;
  for (const Receives& receives : {
           Receives([&](const Communicator& world) { kerkis::receive(Host(), world, column, {.from = 0}).wait(); }),
           Receives([&](const Communicator& world) { kerkis::receive(Host(), world, run, {.from = 0}).wait(); }),
           Receives([&](const Communicator& world) { kerkis::receive(Host(), world, unmanaged, {.from = 0}).wait(); }),
           Receives([&](const Communicator& world) { kerkis::receive(Host(), world, pairs, {.from = 0}).wait(); }),
           Receives([&](const Communicator& world) {
             kerkis::receive(Host(), world, run, {.from = 0, .received = &received}).wait();
           }),
           Receives([&](const Communicator& world) {
             auto again = kerkis::persistent_receive(Host(), world, run, {.from = 0});
             again.start().wait();
           }),
           Receives([&](const Communicator& world) {
             kerkis::exchange(Host(), world, none, run, {.to = kerkis::no_rank, .from = 0}).wait();
           }),
       }) {
    const Communicator world(MPI_COMM_WORLD);
    if (world.rank() > 1 || world.size() == 1) continue;
    std::string text;
    if (world.rank() == 0)
      text = thrown<CommError>([&] {
        kerkis::send(Host(), world, bytes, {.to = 1}).wait();
        while (true) world.poll();
      });
    else
      text = thrown<CommError>([&] { receives(world); });
    CHECK(contains(text, "rank 0 has sent 5 bytes, no whole number of elements of 8 bytes"));
  }
}

}  // namespace
