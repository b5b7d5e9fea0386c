// SPDX-License-Identifier: Apache-2.0
// The report of a deadline names the ranks that have not come, and what they do, without their help.
#include <doctest/doctest.h>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/exchange.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/request_range.hpp>
#include <kerkis/comm/shift.hpp>

#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "captured_stderr.hpp"
#include "thrown.hpp"

using namespace std::chrono_literals;

namespace {

using kerkis::CommError;
using kerkis::Communicator;
using kerkis::message;
using kerkis::PeerError;
using Host = Kokkos::DefaultHostExecutionSpace;
using View = Kokkos::View<float*, Kokkos::HostSpace>;

constexpr kerkis::CommunicatorOptions patient{.wait = {.deadline = 30s}};

std::string here(int line) { return message("at deadline.cpp:", line, ", "); }

/// Somewhere else, until another rank fails.
std::string compute(const Communicator& communicator) {
  return thrown<PeerError>([&] {
    for (;;) {
      communicator.poll();
      std::this_thread::sleep_for(1ms);
    }
  });
}

/// More than MPI buffers.
constexpr std::size_t long_count = 200'000;

/// Receives what ranks have sent and given up, so that MPI_Finalize finds nothing half done.
void take_rest(const Communicator& failed, const Communicator& sound) {
  std::vector<float> rest(long_count + 4);
  for (const auto start = std::chrono::steady_clock::now(); std::chrono::steady_clock::now() - start < 200ms;) {
    int there = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, failed.native(), &there, MPI_STATUS_IGNORE);
    if (there == 0) continue;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Irecv(rest.data(), static_cast<int>(rest.size() * sizeof(float)), MPI_BYTE, MPI_ANY_SOURCE, MPI_ANY_TAG,
              failed.native(), &request);
    CHECK(kerkis::comm::completes_within(request, 20s));
  }
  kerkis::barrier(sound).wait();
}

/// A process of its own that runs a shell's command.
pid_t spawn(const std::string& command) {
  std::string shell = "sh", flag = "-c", text = command;
  char* arguments[] = {shell.data(), flag.data(), text.data(), nullptr};
  pid_t pid = -1;
  if (posix_spawnp(&pid, "sh", nullptr, nullptr, arguments, environ) != 0) return -1;
  return pid;
}

/// Seconds in a message, behind the first place of `words`; -1 without them.
double number_behind(const std::string& text, const std::string& words) {
  const std::size_t place = text.find(words);
  return place == std::string::npos ? -1 : std::strtod(text.c_str() + place + words.size(), nullptr);
}

TEST_CASE("a rank that does not come is named, with what it entered last") {
  const Communicator world(MPI_COMM_WORLD, "world", patient);
  const int last = world.size() - 1;
  const int line = __LINE__ + 1;
  kerkis::barrier(world).wait();
  std::string text;
  if (world.rank() == 0)
    text = thrown<CommError>([&] { kerkis::all_reduce(Host(), world, View("view", 5), {.deadline = 400ms}).wait(); });
  else if (world.rank() == last)
    text = compute(world);
  else
    text = thrown<PeerError>([&] { kerkis::all_reduce(Host(), world, View("view", 5)).wait(); });
  CHECK_MESSAGE(contains(text, "all_reduce #2 of 5 float over 'world', called at deadline.cpp:"), text);
  CHECK_MESSAGE(
      contains(text, message(" s; rank ", last, " has not come: rank ", last, " last entered barrier #1 ", here(line))),
      text);
  const double waited = number_behind(text, ", waited "), ago = number_behind(text, here(line));
  CHECK_MESSAGE((waited >= 0.4 && waited < 5 && ago >= 0 && ago < 5), text);
}

TEST_CASE("the ranks of a part are those of the root communicator, and other parts do not matter") {
  const Communicator world(MPI_COMM_WORLD, "world", patient);
  const int last = world.size() - 1;
  // Its rank 0 is the last rank of the world.
  const Communicator data = world.split(0, -world.rank(), "data");
  const Communicator own = world.split(world.rank(), 0, "own");
  const int line = __LINE__ + 1;
  for (int i = 0; i < 5; ++i) kerkis::barrier(world).wait();
  std::string text;
  if (world.rank() == 0)
    text = thrown<CommError>([&] { kerkis::barrier(data, {.deadline = 300ms}).wait(); });
  else if (world.rank() == last)
    text = compute(world);
  else
    text = thrown<PeerError>([&] { kerkis::barrier(data).wait(); });
  CHECK_MESSAGE(contains(text, "barrier #1 over 'data', called at deadline.cpp:"), text);
  CHECK_MESSAGE(contains(text, message("; rank ", last, " (0 of 'data') has not come: rank ", last,
                                       " last entered barrier #7 over 'world' ", here(line))),
                text);
}

TEST_CASE("every rank number of a part is clear") {
  const Communicator world(MPI_COMM_WORLD, "world", patient);
  const int last = world.size() - 1;
  const Communicator part = world.split(world.rank() == 0 ? 1 : 0, 0, "part");  // rank - 1, but for rank 0
  std::string text;
  if (world.rank() == last && last > 1) {
    text = thrown<CommError>(
        [&] { kerkis::receive(Host(), part, View("view", 8), {.from = 0, .deadline = 300ms}).wait(); });
    CHECK_MESSAGE(contains(text, "receive #1 of 8 float from rank 0 over 'part', called at"), text);
    CHECK_MESSAGE(contains(text, " s; the message from rank 1 (0 of 'part') has not come: rank 1 last entered split #"),
                  text);
  } else if (last > 1) {
    compute(world);
  }
  if (last < 3) return;
  const Communicator other(MPI_COMM_WORLD, "other", patient);
  const Communicator most = other.split(other.rank() == 0 ? 1 : 0, 0, "most");
  if (other.rank() == last) {
    text = thrown<CommError>([&] { kerkis::barrier(most, {.deadline = 300ms}).wait(); });
    CHECK_MESSAGE(contains(text, "; ranks 1 and 2 (0 and 1 of 'most') have not come: rank 1 last entered split #1 over "
                                 "'other' at deadline.cpp:"),
                  text);
  } else {
    compute(other);
  }
}

/// All but the last rank wait for it in a barrier over `there`, rank 0 for a short time; returns what is thrown: the
/// report of rank 0.
std::string wait_for_last(const Communicator& world, const Communicator& there) {
  if (world.rank() == world.size() - 1) return compute(world);
  const auto deadline = world.rank() == 0 ? 300ms : 30000ms;
  return thrown<CommError>([&] { kerkis::barrier(there, {.deadline = deadline}).wait(); });
}

TEST_CASE("a communicator that comes after many others") {
  const Communicator world(MPI_COMM_WORLD, "world", patient);
  const int last = world.size() - 1;
  Communicator part;
  for (int i = 0; i < 70; ++i) {
    part = world.split(0, world.rank(), message("part ", i));
    kerkis::barrier(part).wait();
  }
  const std::string text = wait_for_last(world, part);
  CHECK_MESSAGE(contains(text, message("barrier #2 over 'part 69', called at deadline.cpp:")), text);
  CHECK_MESSAGE(
      contains(text, message("; rank ", last, " has not come: rank ", last, " last entered barrier #1 at deadline")),
      text);
  CHECK_MESSAGE(!contains(text, "unknown"), text);
}

TEST_CASE("the root communicator beside many parts") {
  const Communicator world(MPI_COMM_WORLD, "world", patient);
  const int last = world.size() - 1;
  const Communicator base = world.split(0, world.rank(), "base");
  std::vector<Communicator> parts;
  for (int i = 0; i < 70; ++i) {
    parts.push_back(base.split(0, world.rank(), message("part ", i)));
    kerkis::barrier(parts.back()).wait();
  }
  const std::string text = wait_for_last(world, world);
  CHECK_MESSAGE(contains(text, message("; rank ", last, " has not come: rank ", last,
                                       " last entered barrier #1 over 'part 69' at deadline.cpp:")),
                text);
}

TEST_CASE("an old communicator beside many newer ones") {
  for (const bool newer_end : {false, true}) {
    CAPTURE(newer_end);
    const Communicator world(MPI_COMM_WORLD, "world", patient);
    const int last = world.size() - 1;
    const Communicator old = world.split(0, world.rank(), "old");
    kerkis::barrier(old).wait();
    std::vector<Communicator> parts;
    for (int i = 0; i < 130; ++i) {
      parts.push_back(world.split(0, world.rank(), message("part ", i)));
      kerkis::barrier(parts.back()).wait();
    }
    if (newer_end) parts.clear();
    kerkis::barrier(old).wait();
    if (newer_end) kerkis::barrier(world).wait();  // so that it is not what was entered last that tells
    const std::string text = wait_for_last(world, old);
    CHECK_MESSAGE(contains(text, "barrier #3 over 'old', called at deadline.cpp:"), text);
    CHECK_MESSAGE(contains(text, message("; rank ", last, " has not come: rank ", last, " last entered barrier #",
                                         newer_end ? 132 : 2)),
                  text);
  }
}

TEST_CASE("a wait for several requests reports when the first of their communicators does") {
  const Communicator slow(MPI_COMM_WORLD, "slow", patient);
  const Communicator quick(MPI_COMM_WORLD, "quick", {.wait = {.first_report = 200ms, .deadline = 30s}});
  if (slow.rank() == slow.size() - 1) std::this_thread::sleep_for(600ms);
  CapturedStderr captured;
  std::vector<kerkis::Request> both;
  both.push_back(kerkis::barrier(slow));
  both.push_back(kerkis::barrier(quick));
  kerkis::wait_all(both);
  const std::string text = captured.text();
  if (slow.rank() != slow.size() - 1) CHECK_MESSAGE(contains(text, "awaited with it: barrier #1 over 'quick'"), text);
}

TEST_CASE("a name that is cut is marked") {
  const Communicator world(MPI_COMM_WORLD, "world", patient);
  const Communicator part = world.split(0, world.rank(), "a part of all ranks with quite a long name");
  kerkis::barrier(part).wait();
  const std::string text = wait_for_last(world, world);
  CHECK_MESSAGE(contains(text, "barrier #1 over 'a part of all ranks with qui...' at "), text);
}

TEST_CASE("a long name is the same communicator's in all of the report") {
  const Communicator world(MPI_COMM_WORLD, "a communicator with quite a long name", patient);
  const int last = world.size() - 1, line = __LINE__ + 1;
  kerkis::barrier(world).wait();
  std::string text;
  if (world.rank() == 0)
    text = thrown<CommError>([&] { kerkis::barrier(world, {.deadline = 300ms}).wait(); });
  else
    text = compute(world);
  CHECK_MESSAGE(contains(text, "barrier #2 over 'a communicator with quite a long name', called"), text);
  CHECK_MESSAGE(contains(text, message("rank ", last, " last entered barrier #1 ", here(line))), text);
}

TEST_CASE("the end of a communicator is named as what it is") {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Communicator sound(MPI_COMM_WORLD, "sound");
  for (const bool waits_there : {true, false}) {
    const auto first_report = waits_there ? 200ms : 20000ms;
    auto world = std::make_unique<const Communicator>(
        MPI_COMM_WORLD, "mine", kerkis::CommunicatorOptions{.wait = {.first_report = first_report, .deadline = 30s}});
    const int line = __LINE__ + 1;
    kerkis::barrier(*world).wait();
    if (waits_there) {
      if (rank == 0) std::this_thread::sleep_for(1s);
      CapturedStderr captured;
      world.reset();
      const std::string text = captured.text();
      const auto expected = message("kerkis: rank ", rank, " still waits: the end of communicator 'mine', waited ");
      CHECK_MESSAGE((rank == 0 || contains(text, expected)), text);
      CHECK_MESSAGE((rank == 0 || contains(text, "; rank 0 has not come: rank 0 last entered barrier #1 over 'mine'")),
                    text);
      CHECK_MESSAGE((rank == 0 || contains(text, here(line))), text);
    } else if (rank == 0) {
      std::this_thread::sleep_for(200ms);
      const std::string text = thrown<CommError>([&] { kerkis::barrier(*world, {.deadline = 300ms}).wait(); });
      CHECK_MESSAGE(contains(text, message("rank ", ranks - 1, " has come to the end of 'mine', 0.")), text);
    }
  }
}

TEST_CASE("a rank that never entered anything") {
  const Communicator world(MPI_COMM_WORLD, "world", patient);
  const int last = world.size() - 1;
  std::string text;
  if (world.rank() == 0)
    text = thrown<CommError>([&] { kerkis::barrier(world, {.deadline = 300ms}).wait(); });
  else
    text = compute(world);
  CHECK_MESSAGE(contains(text, world.size() == 2 ? "; rank 1 has not come: " : "; ranks 1"), text);
  CHECK_MESSAGE(contains(text, message("rank ", last, " has entered nothing yet")), text);
}

TEST_CASE("a hand-off says what its peer does") {
  const Communicator world(MPI_COMM_WORLD, "world", patient);
  const int last = world.size() - 1;
  const int line = __LINE__ + 1;
  kerkis::barrier(world).wait();
  std::string text;
  if (world.rank() == 0)
    text = thrown<CommError>(
        [&] { kerkis::receive(Host(), world, View("view", 3), {.from = last, .deadline = 300ms}).wait(); });
  else
    text = compute(world);
  CHECK_MESSAGE(contains(text, message("receive #1 of 3 float from rank ", last)), text);
  const double waited = number_behind(text, ", waited ");
  CHECK_MESSAGE((waited >= 0.3 && waited < 5), text);
  CHECK_MESSAGE(contains(text, message(" s; the message from rank ", last, " has not come: rank ", last,
                                       " last entered barrier #1 ", here(line))),
                text);
}

TEST_CASE("a send that nobody receives, and a receive from any rank") {
  const Communicator sound(MPI_COMM_WORLD, "sound");
  for (const bool sends : {true, false}) {
    const Communicator world(MPI_COMM_WORLD, "world", patient);
    const int last = world.size() - 1, line = __LINE__ + 1;
    kerkis::barrier(world).wait();
    const View view("view", long_count);
    std::string text;
    if (world.rank() != 0)
      text = compute(world);
    else if (sends)
      text = thrown<CommError>([&] { kerkis::send(Host(), world, view, {.to = last, .deadline = 300ms}).wait(); });
    else
      text = thrown<CommError>(
          [&] { kerkis::receive(Host(), world, view, {.from = kerkis::any_rank, .deadline = 300ms}).wait(); });
    const auto operation = sends ? message("send #1 of 200000 float to rank ", last, " over 'world', called at")
                                 : "receive #1 of 200000 float from any rank over 'world', called at";
    const auto absent = sends ? message("; the message to rank ", last, " has not been received: ")
                              : "; no message has come: rank 1 last entered barrier #1 " + here(line);
    CHECK_MESSAGE(contains(text, operation), text);
    CHECK_MESSAGE(contains(text, absent), text);
    CHECK_MESSAGE(contains(text, message("rank ", last, " last entered barrier #1 ", here(line))), text);
    take_rest(world, sound);
  }
}

TEST_CASE("how far a message in pieces has got") {
  const Communicator sound(MPI_COMM_WORLD, "sound");
  const std::size_t piece = long_count / 40, bytes = piece * sizeof(float);  // more than MPI sends to who does not wait
  for (const bool sends : {true, false}) {                                   // rank 0
    const Communicator world(MPI_COMM_WORLD, "world", {.wait = {.deadline = 30s}, .largest_count = piece});
    const int last = world.size() - 1;
    const View view("view", long_count);
    std::string text;
    if (world.rank() == 0) {
      text = thrown<CommError>([&] {
        if (sends)
          kerkis::send(Host(), world, view, {.to = last, .deadline = 300ms}).wait();
        else
          kerkis::receive(Host(), world, view, {.from = kerkis::any_rank, .deadline = 300ms}).wait();
      });
    } else {
      // The first piece and no other, behind the library's back.
      std::vector<std::byte> first(bytes + kerkis::comm::trailer_bytes(bytes));
      const kerkis::comm::Trailer trailer{.total = long_count};
      std::memcpy(first.data() + bytes, &trailer, first.size() - bytes);
      const int size = static_cast<int>(first.size());
      MPI_Request part = MPI_REQUEST_NULL;
      if (world.rank() == last && sends) MPI_Irecv(first.data(), size, MPI_BYTE, 0, 0, world.native(), &part);
      if (world.rank() == last && !sends) MPI_Isend(first.data(), size, MPI_BYTE, 0, 0, world.native(), &part);
      CHECK(kerkis::comm::completes_within(part, 20s));
      text = compute(world);
    }
    const std::string before = sends ? message("; the message to rank ", last, " has not been received")
                                     : std::string("; no message has come");
    CHECK_MESSAGE(contains(text, before + " to its end, but 1 of its 40 pieces: rank "), text);
    take_rest(world, sound);
  }
}

/// Rank 0 exchanges with two ranks, of which one does its part.
void check_exchange(const Communicator& sound, std::size_t largest_count, bool receiver_comes) {
  const Communicator world(MPI_COMM_WORLD, "world", {.wait = {.deadline = 30s}, .largest_count = largest_count});
  const int to = 1, from = 2, missing = receiver_comes ? from : to;
  const int line = __LINE__ + 1;
  kerkis::barrier(world).wait();
  const View out("out", long_count), in("in", long_count);
  std::string text;
  if (world.rank() == 0) {
    text = thrown<CommError>(
        [&] { kerkis::exchange(Host(), world, out, in, {.to = to, .from = from, .deadline = 1s}).wait(); });
  } else {
    // Rank 0 may give up before these are complete.
    kerkis::Request part;
    if (world.rank() != missing && world.rank() == from) part = kerkis::send(Host(), world, out, {.to = 0});
    if (world.rank() != missing && world.rank() == to) part = kerkis::receive(Host(), world, in, {.from = 0});
    text = thrown<PeerError>([&] {
      part.wait();
      for (;;) world.poll();
    });
  }
  CHECK_MESSAGE(contains(text, "exchange #1 of 200000 float to rank 1 and from rank 2 over 'world', called at"), text);
  const auto absent = receiver_comes
                          ? " s; the message from rank 2 has not come: rank 2 last entered barrier #1 "
                          : " s; the message to rank 1 has not been received: rank 1 last entered barrier #1 ";
  CHECK_MESSAGE(contains(text, absent + here(line)), text);
  CHECK_MESSAGE(!contains(text, receiver_comes ? "rank 1 last" : "rank 2 last"), text);
  take_rest(world, sound);
}

TEST_CASE("an exchange names the sides that are under way") {
  const Communicator sound(MPI_COMM_WORLD, "sound");
  for (const std::size_t largest_count : {2 * long_count, long_count / 4}) {  // in one piece, and in several
    CAPTURE(largest_count);
    for (const bool receiver_comes : {false, true})
      if (sound.size() > 2) check_exchange(sound, largest_count, receiver_comes);
  }
  const Communicator world(MPI_COMM_WORLD, "world", patient);
  const View out("out", long_count), in("in", long_count);
  const int right = 1, left = world.size() - 1;
  std::string text;
  if (world.rank() == 0)
    text = thrown<CommError>([&] { kerkis::shift(Host(), world, out, in, {.deadline = 300ms}).wait(); });
  else
    text = compute(world);
  CHECK_MESSAGE(contains(text, message("shift #1 of 200000 float to rank ", right, " and from rank ", left, " over ")),
                text);
  CHECK_MESSAGE(
      contains(text, message("; the message to rank ", right, " has not been received; the message from rank ", left,
                             " has not come: rank 1 has entered nothing yet")),
      text);
  CHECK_MESSAGE(contains(text, message("rank ", left, " has entered nothing yet")), text);
  take_rest(world, sound);
}

TEST_CASE("a frozen rank does not answer") {
  const Communicator world(MPI_COMM_WORLD, "world", {.wait = {.deadline = 700ms}});
  const int last = world.size() - 1;
  kerkis::barrier(world).wait();
  std::string text;
  if (world.rank() == last) {
    const pid_t helper = spawn(message("sleep 2; kill -CONT ", getpid()));
    CHECK(helper > 0);
    if (helper > 0) std::raise(SIGSTOP);
    waitpid(helper, nullptr, 0);
    text = compute(world);
  } else {
    text = thrown<CommError>([&] { kerkis::barrier(world).wait(); });
  }
  CHECK_MESSAGE(contains(text, "barrier #2 over 'world', called at deadline.cpp:"), text);
  CHECK_MESSAGE(contains(text, message("; rank ", last, " has not come: rank ", last,
                                       " does not answer; it last entered barrier #1 at deadline.cpp:")),
                text);
}

TEST_CASE("a first report is a line on stderr, and the wait goes on") {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Communicator world(MPI_COMM_WORLD, "world", {.wait = {.first_report = 200ms, .deadline = 30s}});
  if (rank == ranks - 1) std::this_thread::sleep_for(2s);
  CapturedStderr captured;
  kerkis::barrier(world).wait();
  const std::string text = captured.text();
  if (rank != ranks - 1) {
    CHECK_MESSAGE(contains(text, message("kerkis: rank ", rank, " still waits: barrier #1 over 'world', called at ")),
                  text);
    CHECK_MESSAGE(contains(text, message("; rank ", ranks - 1, " has not come: rank ", ranks - 1)), text);
    CHECK(text.find("still waits") == text.rfind("still waits"));
  }
}

TEST_CASE("a communicator that is being made reports too, and names its deadline") {
  const Communicator sound(MPI_COMM_WORLD, "sound");
  const bool last = sound.rank() == sound.size() - 1;
  const std::string what = message("the construction of communicator 'new' of ", sound.size(), " ranks, called ");
  {
    if (last) std::this_thread::sleep_for(1s);
    CapturedStderr captured;
    const int line = __LINE__ + 1;
    const Communicator slow(sound.native(), "new", {.wait = {.first_report = 200ms, .deadline = 30s}});
    const std::string text = captured.text();
    const auto expected = message("kerkis: rank ", sound.rank(), " still waits: ", what, here(line), "waited 0.2 s; ");
    CHECK_MESSAGE((last || contains(text, expected)), text);
    CHECK_MESSAGE((last || contains(text, "; which ranks have not come is unknown: ")), text);
    CHECK(text.find("still waits") == text.rfind("still waits"));
  }
  // The last rank comes too late, and finds the first step done. Open MPI loses the order of what follows on the
  // communicator that was to be duplicated: nothing does here.
  const Communicator other(MPI_COMM_WORLD, "other");
  if (last) std::this_thread::sleep_for(1s);
  const int line = __LINE__ + 2;
  try {
    const Communicator never(other.native(), "new", {.wait = {.deadline = last ? 500ms : 300ms}});
    FAIL_CHECK("no deadline");
  } catch (const CommError& error) {
    const std::string text = error.what();
    CHECK_MESSAGE(contains(text, message(what, here(line),
                                         last ? "waited 0.5 s; all ranks have come to it, but not all"
                                              : "waited 0.3 s; which ranks have not come")),
                  text);
    CHECK(error.rank() == sound.rank());
    CHECK(error.operation() == "construction");
    CHECK(error.axis() == "new");
    CHECK(static_cast<int>(error.where().line()) == line);
  }
  kerkis::barrier(sound).wait();
}

TEST_CASE("a long line on stderr is one write") {
  int ends[2];
  CHECK(socketpair(AF_UNIX, SOCK_DGRAM, 0, ends) == 0);  // keeps writes apart
  const int before = dup(STDERR_FILENO);
  dup2(ends[0], STDERR_FILENO);
  const std::string text(3000, 'x');
  kerkis::comm::print_error(text);
  dup2(before, STDERR_FILENO);
  std::string line(4096, '\0');
  const ssize_t length = recv(ends[1], line.data(), line.size(), MSG_DONTWAIT);
  line.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
  CHECK(line == "kerkis: " + text + "\n");
  for (const int end : {ends[0], ends[1], before}) close(end);
}

TEST_CASE("the state of a process") {
  using kerkis::comm::process_state, kerkis::comm::ProcessState;
  CHECK(process_state(getpid()) == ProcessState::runs);
  CHECK(process_state(0) == ProcessState::unknown);
  const pid_t child = spawn("exec sleep 20");
  CHECK(child > 0);
  if (child <= 0) return;
  CHECK(process_state(child) == ProcessState::runs);
  kill(child, SIGSTOP);
  waitpid(child, nullptr, WUNTRACED);
  CHECK(process_state(child) == ProcessState::stopped);
  kill(child, SIGKILL);
  siginfo_t info;
  waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT);  // a zombie
  CHECK(process_state(child) == ProcessState::gone);
  waitpid(child, nullptr, 0);
  CHECK(process_state(child) == ProcessState::gone);
}

TEST_CASE("a board shows what its ranks enter, and leaves nothing behind") {
  using namespace kerkis::comm;
  const auto name = message("/kerkis-test-", getpid());
  Board first(3, 0, name);
  {
    Board second(3, 1, name);
    CHECK(first.read(2, 5).process == ProcessState::unknown);  // has not come
    CHECK(first.read(1, 5).entered_any == 0);
    const std::string long_axis(100, 'x');
    for (unsigned i = 1; i <= 100; ++i)  // more sites than a board has places
      second.enter(
          5,
          {.name = "all_reduce", .where = std::source_location::current(), .axis = long_axis.c_str(), .sequence = i});
    second.enter(6, {.name = "send", .collective = false, .axis = "other", .sequence = 7});
    const PeerState state = first.read(1, 5);
    CHECK(state.process == ProcessState::runs);
    CHECK(state.sequence == 100);
    CHECK(state.last.group == 6);
    CHECK(first.read(1, 6).sequence == 0);
    // Another communicator with the same place: the newest has it.
    constexpr int newer = 5 + Board::part_places;
    CHECK(first.read(1, newer).sequence == 0);
    second.enter(newer, {.name = "scan", .axis = "newer", .sequence = 2});
    second.enter(5, {.name = "all_reduce", .axis = "older", .sequence = 101});
    CHECK(first.read(1, newer).sequence == 2);
    CHECK(first.read(1, newer + Board::part_places).sequence == 0);
    CHECK(first.read(1, 5).sequence == 101);  // it is what was entered last
    CHECK(std::string(second.read(1, 5).last.axis.data()) == "older");
    second.enter(5, {.name = "send", .collective = false, .axis = "older", .sequence = 102});
    CHECK(first.read(1, 5).sequence == -1);
    second.leave(5);  // is not there
    CHECK(first.read(1, newer).sequence == 2);
    second.leave(newer);
    CHECK(first.read(1, 5).sequence == -1);
    CHECK(first.read(1, newer + Board::part_places).sequence == 0);
    second.enter(5, {.name = "all_reduce", .axis = "older", .sequence = 102});
    second.enter(6, {.name = "send", .collective = false, .axis = "other", .sequence = 8});
    CHECK(first.read(1, 5).sequence == 102);
    CHECK(first.read(1, newer + Board::part_places).sequence == 0);
    // The root and the end are never displaced.
    second.enter(1, {.name = "barrier", .axis = "root", .sequence = 3});
    second.enter(1 + Board::part_places, {.name = "scan", .axis = "part", .sequence = 4});
    second.enter(2 + Board::part_places, {.name = "scan", .axis = "part", .sequence = 5});
    CHECK(first.read(1, 1).sequence == 3);
    CHECK(first.read(1, 0).sequence == 0);
    CHECK(std::string(state.last.name.data()) == "send");
    CHECK(std::string(state.last.axis.data()) == "other");
    CHECK(state.last_sequence == 7);
    CHECK(state.age < 10'000);
  }
  first.forget_name();
  CHECK(shm_open(name.c_str(), O_RDWR, 0600) < 0);
  CHECK(first.read(1, 1).sequence == 3);

  Board alone(2, 1, "no/such/name");  // no shared memory
  alone.enter(1, {.name = "scan", .sequence = 3});
  CHECK(alone.read(1, 1).sequence == 3);
  CHECK(alone.read(0, 1).process == ProcessState::unknown);
}

TEST_CASE("a watch answers who knows its token, while its rank does something else") {
  using namespace kerkis::comm;
  Board board(1, 0, "");
  board.enter(4, {.name = "scan", .axis = "data", .sequence = 3});
  WatchAddress address;
  {
    Watch watch;
    watch.start(board, 77);
    address = watch.address();
    CHECK(address.port != 0);
    address.hosts = {htonl(INADDR_LOOPBACK)};
    const auto answer = Watch::ask(address, {77, 4}, 1);
    REQUIRE(answer.size() == 1);
    CHECK(answer.front().process == ProcessState::runs);
    CHECK(answer.front().sequence == 3);
    CHECK(std::string(answer.front().last.name.data()) == "scan");
    CHECK(Watch::ask(address, {78, 4}, 1).empty());
    CHECK(Watch::ask(address, {77, 4}, 2).empty());        // more than there are
    CHECK_FALSE(Watch::ask(address, {77, 4}, 1).empty());  // it still lives
  }
  CHECK(Watch::ask(address, {77, 4}, 1).empty());
  const Watch silent;  // listens, but nobody answers, as in a frozen process
  address.port = silent.address().port;
  const auto start = std::chrono::steady_clock::now();
  CHECK(Watch::ask(address, {77, 4}, 1).empty());
  CHECK(std::chrono::steady_clock::now() - start < 3s);
}

TEST_CASE("a communicator with watches works as any other") {
  const Communicator world(MPI_COMM_WORLD, "world", {.watch = true});
  kerkis::barrier(world).wait();
  CHECK(world.split(0, 0, "part").size() == world.size());
}

}  // namespace
