// SPDX-License-Identifier: Apache-2.0
// Root communicators in checking mode that two threads use, with MPI_THREAD_MULTIPLE: this program has a main function
// of its own.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/testing/any_rank.hpp>
#include <kerkis/testing/watchdog.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <optional>
#include <random>
#include <thread>
#include <vector>

using namespace std::chrono_literals;

namespace {

using kerkis::Communicator;
using kerkis::Request;
using Host = Kokkos::DefaultHostExecutionSpace;
using View = Kokkos::View<int*, Kokkos::HostSpace>;

constexpr kerkis::CommunicatorOptions checked{.wait = {.deadline = 60s}, .check = true};

View filled(int value) {
  View view("view", 5);
  for (std::size_t i = 0; i < view.size(); ++i) view(i) = value;
  return view;
}

void wait_for(const std::atomic<bool>& flag) {
  while (!flag) std::this_thread::sleep_for(50us);
}

TEST_CASE("a thread that waits moves on what another thread has called and left alone") {
  const Communicator one(MPI_COMM_WORLD, "one", checked), two(MPI_COMM_WORLD, "two", checked);
  for (int round = 0; round < 20; ++round) {
    const bool early = (one.rank() + round) % 2 == 0;
    const View a = filled(1), b = filled(2);
    std::atomic<bool> called = false, complete = false;
    // Half of the ranks call and leave `b` to the other thread's wait for `a`, which the others begin after `b`.
    std::thread second([&] {
      Request request = kerkis::all_reduce(Host(), two, b);
      if (!early) request.wait();
      called = true;
      wait_for(complete);
      request.wait();
    });
    wait_for(called);
    kerkis::all_reduce(Host(), one, a).wait();
    complete = true;
    second.join();
    CHECK(a(4) == one.size());
    CHECK(b(4) == 2 * two.size());
  }
}

/// Collectives, a few at a time, waited for in an order of this rank's own; says whether all were right.
bool reduces(const Communicator& communicator, unsigned seed) {
  std::mt19937 random(seed);
  bool right = true;
  for (int round = 0; round < 60; ++round) {
    std::vector<View> views;
    std::vector<Request> requests;
    for (int i = 0; i < 4; ++i)
      requests.push_back(
          kerkis::all_reduce(Host(), communicator, views.emplace_back(filled(i)), {.reproducible = i == 2}));
    if (random() % 4 == 0) std::this_thread::sleep_for(200us);
    while (!requests.empty()) {
      const auto place = requests.begin() + static_cast<std::ptrdiff_t>(random() % requests.size());
      place->wait();
      requests.erase(place);
    }
    for (int i = 0; i < 4; ++i) right &= views[static_cast<std::size_t>(i)](0) == i * communicator.size();
  }
  return right;
}

TEST_CASE("two threads with a root communicator each, and one that makes and ends others") {
  const Communicator one(MPI_COMM_WORLD, "one", checked), two(MPI_COMM_WORLD, "two", checked);
  const auto seed = static_cast<unsigned>(one.rank());
  bool right_there = false;
  std::thread second([&] { right_there = reduces(two, 100 + seed); });
  bool right = reduces(one, seed);
  for (int i = 0; i < 10; ++i) {
    const Communicator short_lived(MPI_COMM_WORLD, "short-lived", checked);
    const View view = filled(i);
    kerkis::all_reduce(Host(), short_lived, view).wait();
    right &= view(3) == i * one.size();
  }
  second.join();
  CHECK(right);
  CHECK(right_there);
}

TEST_CASE("root communicators that have failed end on two threads at once") {
  constexpr std::size_t each = 40;
  std::array<std::vector<Communicator>, 2> failed;
  for (auto& some : failed)
    for (std::size_t i = 0; i < each; ++i) {
      some.emplace_back(MPI_COMM_WORLD, "failed");
      some.back().state()->engine->failures()->fail(kerkis::CommError("on purpose"));
    }
  const std::size_t before = kerkis::comm::left_behind().communicators.size();
  std::atomic<int> ready = 0;
  const auto end = [&](std::vector<Communicator>& some) {
    ++ready;
    while (ready < 2) std::this_thread::yield();
    some.clear();
  };
  std::thread second([&] { end(failed[1]); });
  end(failed[0]);
  second.join();
  CHECK(kerkis::comm::left_behind().communicators.size() == before + 2 * each);
}

}  // namespace

int main(int argc, char** argv) {
  int level = MPI_THREAD_SINGLE, rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  bool failed = false;
  if (level < MPI_THREAD_MULTIPLE) {
    if (rank == 0) std::fprintf(stderr, "skipped: this MPI has no MPI_THREAD_MULTIPLE\n");
  } else {
    kerkis::testing::Watchdog watchdog(rank);
    watchdog.watch("tests/comm/threads", __FILE__, __LINE__);
    Kokkos::initialize(Kokkos::InitializationSettings().set_num_threads(1).set_disable_warnings(true));
    doctest::Context context(argc, argv);
    failed = kerkis::testing::any_rank(MPI_COMM_WORLD, context.run() != 0);
    Kokkos::finalize();
  }
  MPI_Finalize();
  return failed ? 1 : 0;
}
