// SPDX-License-Identifier: Apache-2.0
// Checking mode: what differs between ranks is an error on all of them, and what is legal stays legal.
#include <doctest/doctest.h>
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/all_to_all.hpp>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/gather.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/persistent_collective.hpp>
#include <kerkis/comm/persistent_hand_off.hpp>
#include <kerkis/comm/reduce_scatter.hpp>
#include <kerkis/comm/request_range.hpp>
#include <kerkis/comm/scatter.hpp>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "captured_stderr.hpp"
#include "thrown.hpp"

using namespace std::chrono_literals;

namespace {

using kerkis::CommError;
using kerkis::Communicator;
using kerkis::message;
using kerkis::Request;
using Host = Kokkos::DefaultHostExecutionSpace;
template <class T>
using View = Kokkos::View<T*, Kokkos::HostSpace>;

constexpr kerkis::CommunicatorOptions checked{.wait = {.deadline = 20s}, .check = true};
constexpr kerkis::CommunicatorOptions strict{.wait = {.deadline = 20s}, .strict_call_sites = true};

/// Every rank enters a barrier, then the last one `theirs` and the others `ours`: all must throw both texts.
void check_mismatch(const std::string& our_text, const std::string& their_text,
                    const std::function<void(const Communicator&)>& ours,
                    const std::function<void(const Communicator&)>& theirs,
                    const kerkis::CommunicatorOptions& options = checked) {
  const Communicator world(MPI_COMM_WORLD, "world", options);
  const int last = world.size() - 1;
  kerkis::barrier(world).wait();
  const std::string text = thrown<CommError>([&] {
    (world.rank() == last ? theirs : ours)(world);
    kerkis::barrier(world).wait();
  });
  CHECK_MESSAGE(contains(text, message("mismatched collectives #2 over 'world': rank 0 entered ", our_text)), text);
  CHECK_MESSAGE(contains(text, message(", rank ", last, " entered ", their_text)), text);
  CHECK_MESSAGE(contains(text, " at checking.cpp:"), text);
  CHECK(world.poisoned());
}

/// An operation that moves nothing.
Request enter(const Communicator& communicator, kerkis::comm::Operation operation) {
  return Request::start(communicator, operation, {}, nullptr, [native = communicator.native()](MPI_Request* request) {
    return MPI_Ibarrier(native, request);
  });
}

TEST_CASE("another operation") {
  check_mismatch(
      "all_reduce (sum) of 4 float at", "broadcast of 4 float from root 0 at",
      [](const Communicator& world) { kerkis::all_reduce(Host(), world, View<float>("view", 4)).wait(); },
      [](const Communicator& world) { kerkis::broadcast(Host(), world, View<float>("view", 4)).wait(); });
}
TEST_CASE("another count") {
  check_mismatch(
      "all_reduce (sum) of 4 float at", "all_reduce (sum) of 5 float at",
      [](const Communicator& world) { kerkis::all_reduce(Host(), world, View<float>("view", 4)).wait(); },
      [](const Communicator& world) { kerkis::all_reduce(Host(), world, View<float>("view", 5)).wait(); });
}
TEST_CASE("another element type") {
  check_mismatch(
      "broadcast of 4 float from root 0 at", "broadcast of 4 int32 from root 0 at",
      [](const Communicator& world) { kerkis::broadcast(Host(), world, View<float>("view", 4)).wait(); },
      [](const Communicator& world) { kerkis::broadcast(Host(), world, View<int>("view", 4)).wait(); });
}
TEST_CASE("another reduction") {
  check_mismatch(
      "all_reduce (sum) of 4 float at", "all_reduce (maximum) of 4 float at",
      [](const Communicator& world) { kerkis::all_reduce(Host(), world, View<float>("view", 4)).wait(); },
      [](const Communicator& world) {
        kerkis::all_reduce(Host(), world, View<float>("view", 4), {.operation = kerkis::Reduction::maximum}).wait();
      });
}
struct Cell {
  float a, b;
};
struct Pair {
  int a, b;
};
struct Larger {
  static constexpr bool commutes = true;
  template <class T>
  T operator()(const T& x, const T& y) const {
    return x.a < y.a ? y : x;
  }
};
struct Smaller {
  static constexpr bool commutes = true;
  template <class T>
  T operator()(const T& x, const T& y) const {
    return x.a < y.a ? x : y;
  }
};
struct SmallerOfAVeryLongNameThatIsCutInTheText : Smaller {};
namespace another {
struct SmallerOfAVeryLongNameThatIsCutInTheText : Smaller {};
}  // namespace another

template <class Functor, class Element>
void reduce_by(const Communicator& world, bool reproducible) {
  kerkis::all_reduce<Functor>(Host(), world, View<Element>("view", 4), {.reproducible = reproducible}).wait();
}

TEST_CASE("another functor, or a struct of the same size") {
  for (const bool in_order : {false, true}) {
    const auto by = [&]<class Functor, class Element>() {
      return [in_order](const Communicator& world) { reduce_by<Functor, Element>(world, in_order); };
    };
    check_mismatch("all_reduce (", "all_reduce (", by.operator()<Larger, Cell>(), by.operator()<Smaller, Cell>());
    check_mismatch("all_reduce (...", "all_reduce (...",
                   by.operator()<SmallerOfAVeryLongNameThatIsCutInTheText, Cell>(),
                   by.operator()<another::SmallerOfAVeryLongNameThatIsCutInTheText, Cell>());
    check_mismatch("all_reduce (", "all_reduce (", by.operator()<Larger, Cell>(), by.operator()<Larger, Pair>());
  }
  const auto broadcast = []<class Element>() {
    return [](const Communicator& world) { kerkis::broadcast(Host(), world, View<Element>("view", 4)).wait(); };
  };
  check_mismatch("broadcast of 4 ", "broadcast of 4 ", broadcast.operator()<Cell>(), broadcast.operator()<Pair>());
}
TEST_CASE("another order of a reduction") {
  check_mismatch(
      "all_reduce (sum) of 50 int32 at", "all_reduce (sum, in order of ",
      [](const Communicator& world) { kerkis::all_reduce(Host(), world, View<int>("view", 50)).wait(); },
      [](const Communicator& world) {
        kerkis::all_reduce(Host(), world, View<int>("view", 50), {.reproducible = true}).wait();
      });
}
TEST_CASE("persistent operations that are made in another order, or beside a plain one") {
  const View<int> view("view", 5);
  const auto make = [&](const Communicator& world) { kerkis::persistent_all_reduce(Host(), world, view); };
  const auto make_other = [&](const Communicator& world) { kerkis::persistent_broadcast(Host(), world, view); };
  check_mismatch("persistent_all_reduce (sum) of 5 int32 at", "persistent_broadcast of 5 int32 from root 0 at", make,
                 make_other);
  check_mismatch("persistent_all_reduce (sum) of 5 int32 at", "all_reduce (sum) of 5 int32 at", make,
                 [&](const Communicator& world) { kerkis::all_reduce(Host(), world, view).wait(); });
}
TEST_CASE("another root") {
  check_mismatch(
      "broadcast of 4 float from root 0 at", "broadcast of 4 float from root 1 at",
      [](const Communicator& world) { kerkis::broadcast(Host(), world, View<float>("view", 4)).wait(); },
      [](const Communicator& world) { kerkis::broadcast(Host(), world, View<float>("view", 4), {.root = 1}).wait(); });
}
TEST_CASE("another order of elements") {
  check_mismatch(
      "broadcast of 6 float from root 0, first index fastest at",
      "broadcast of 6 float from root 0, last index fastest at",
      [](const Communicator& world) {
        kerkis::broadcast(Host(), world, Kokkos::View<float**, Kokkos::LayoutLeft, Kokkos::HostSpace>("view", 2, 3))
            .wait();
      },
      [](const Communicator& world) {
        kerkis::broadcast(Host(), world, Kokkos::View<float**, Kokkos::LayoutRight, Kokkos::HostSpace>("view", 2, 3))
            .wait();
      });
}
TEST_CASE("two operations in another order, none of them waited for") {
  const auto both = [](const Communicator& world, bool barrier_first) {
    const View<float> view("view", 4);
    std::vector<Request> requests;
    if (barrier_first) requests.push_back(kerkis::barrier(world));
    requests.push_back(kerkis::all_reduce(Host(), world, view));
    if (!barrier_first) requests.push_back(kerkis::barrier(world));
    while (!requests.front().test()) {
    }
    while (!requests.back().test()) {
    }
  };
  check_mismatch(
      "all_reduce (sum) of 4 float at", "barrier at", [&](const Communicator& world) { both(world, false); },
      [&](const Communicator& world) { both(world, true); });
}
TEST_CASE("a split where the others do something else") {
  check_mismatch(
      "split at", "barrier at", [](const Communicator& world) { world.split(0, 0, "part"); },
      [](const Communicator& world) { kerkis::barrier(world).wait(); });
}
TEST_CASE("another call site, where that is asked for") {
  const auto ours = [](const Communicator& world) { kerkis::barrier(world).wait(); };
  const auto theirs = [](const Communicator& world) { kerkis::barrier(world).wait(); };
  check_mismatch("barrier at", "barrier at", ours, theirs, strict);
  const Communicator world(MPI_COMM_WORLD, "world", checked);
  CHECK_NOTHROW((world.rank() == 0 ? ours(world) : theirs(world)));
  CHECK_NOTHROW(kerkis::barrier(world).wait());
}
TEST_CASE("two calls on one line") {
  const Communicator world(MPI_COMM_WORLD, "world", strict);
  const bool last = world.rank() == world.size() - 1;
  const int line = __LINE__ + 2;
  const std::string text =
      thrown<CommError>([&] { last ? kerkis::barrier(world).wait() : kerkis::barrier(world).wait(); });
  const std::string place = message("barrier at checking.cpp:", line, ":");
  CHECK_MESSAGE(contains(text, message("rank 0 entered ", place)), text);
  CHECK_MESSAGE(contains(text, message(", rank ", world.size() - 1, " entered ", place)), text);
}
TEST_CASE("a mismatch on a part of the ranks is said with their ranks in the whole") {
  const Communicator world(MPI_COMM_WORLD, "world", checked);
  const int last = world.size() - 1;
  const Communicator part = world.split(0, -world.rank(), "part");
  const std::string text = thrown<CommError>([&] {
    kerkis::broadcast(Host(), part, View<float>("view", world.rank() == last ? 3 : 2)).wait();
    kerkis::barrier(world).wait();
  });
  CHECK_MESSAGE(
      contains(text, message("mismatched collectives #1 over 'part': rank ", last, " (0 of 'part') entered ")), text);
}
TEST_CASE("a rank that has one operation less is awaited until the deadline") {
  const Communicator world(MPI_COMM_WORLD, "world", {.wait = {.deadline = 400ms}, .check = true});
  const std::string text = thrown<CommError>([&] {
    if (world.rank() > 0) kerkis::barrier(world).wait();
    for (;;) world.poll();
  });
  CHECK_MESSAGE(contains(text, "barrier #1 over 'world'"), text);
  CHECK_MESSAGE(contains(text, "rank 0 has not come"), text);
}

TEST_CASE("counts that may differ, do") {
  const Communicator world(MPI_COMM_WORLD, "world", checked);
  const auto count = static_cast<std::size_t>(world.rank());
  CHECK_NOTHROW(
      enter(world, {.name = "gather", .type = "float", .count = count, .root = 1, .equal_counts = false}).wait());
}

/// Every rank sends 1 + rank elements to each other; `expected`: what the last one expects of rank 0.
Request uneven(const Communicator& world, const View<int>& received, std::size_t expected, bool in_place = false) {
  const auto ranks = static_cast<std::size_t>(world.size()), rank = static_cast<std::size_t>(world.rank());
  std::vector<std::size_t> sends(ranks, 1 + rank), receives(ranks);
  for (std::size_t other = 0; other < ranks; ++other) receives[other] = 1 + other;
  if (rank + 1 == ranks) receives[0] = expected;
  std::size_t all = 0;
  for (const auto count : receives) all += count;
  const View<int> sent("sent", ranks * (1 + rank));
  Kokkos::deep_copy(sent, world.rank());
  const auto into = Kokkos::subview(received, std::pair(std::size_t{0}, all));
  if (in_place) return kerkis::all_to_all(Host(), world, into, {.send_counts = receives, .receive_counts = receives});
  return kerkis::all_to_all(Host(), world, sent, into, {.send_counts = sends, .receive_counts = receives});
}

TEST_CASE("blocks whose counts differ between ranks, but not their sum") {
  const auto mismatch = [](const auto& call) {
    const Communicator world(MPI_COMM_WORLD, "world", checked);
    if (world.size() < 2) return;
    const auto ranks = static_cast<std::size_t>(world.size());
    std::vector<std::size_t> counts(ranks, 4);
    if (world.rank() == 1) {
      counts.front() = 3;
      counts.back() = 5;
    }
    const auto mine = counts[static_cast<std::size_t>(world.rank())];
    const Kokkos::View<float*> block("block", mine), all("all", 4 * ranks);
    const std::string text = thrown<CommError>([&] { call(world, counts, block, all).wait(); });
    CHECK_MESSAGE(contains(text, "mismatched collectives #1 over 'world': rank 0 entered "), text);
    CHECK_MESSAGE(contains(text, " in blocks of 4, "), text);
    CHECK_MESSAGE(contains(text, " in blocks of 3, "), text);
  };
  mismatch([](const auto& world, const auto& counts, const auto& block, const auto& all) {
    return kerkis::all_gather(Host(), world, block, all, {.counts = counts});
  });
  mismatch([](const auto& world, const auto& counts, const auto& block, const auto& all) {
    return kerkis::gather(Host(), world, block, all, {.counts = counts});
  });
  mismatch([](const auto& world, const auto& counts, const auto& block, const auto& all) {
    return kerkis::scatter(Host(), world, all, block, {.counts = counts});
  });
  for (const bool reproducible : {false, true})
    mismatch([=](const auto& world, const auto& counts, const auto& block, const auto& all) {
      return kerkis::reduce_scatter(Host(), world, all, block, {.counts = counts, .reproducible = reproducible});
    });
}

TEST_CASE("an all_to_all with counts on some ranks alone") {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks == 1) return;
  const auto each = [](const Communicator& world) { return static_cast<std::size_t>(world.size()); };
  check_mismatch(
      message("all_to_all of ", ranks, " int32 at"), message("all_to_all of ", ranks, " int32 with counts at"),
      [&](const Communicator& world) {
        kerkis::all_to_all(Host(), world, View<int>("from", each(world)), View<int>("to", each(world))).wait();
      },
      [&](const Communicator& world) {
        const std::vector<std::size_t> ones(each(world), 1);
        kerkis::all_to_all(Host(), world, View<int>("from", each(world)), View<int>("to", each(world)),
                           {.send_counts = ones, .receive_counts = ones})
            .wait();
      });
}

TEST_CASE("an all_to_all of which two ranks have other counts") {
  for (const bool in_place : {false, true}) {
    for (const std::size_t expected : {0U, 3U}) {
      const Communicator world(MPI_COMM_WORLD, "world", checked);
      const View<int> received("received", 20);
      const std::string text = thrown<CommError>([&] {
        kerkis::barrier(world).detach();
        Request request = uneven(world, received, expected, in_place), behind = kerkis::barrier(world);
        behind.wait();
        request.wait();
      });
      CHECK_MESSAGE(contains(text, "mismatched counts of all_to_all #2 over 'world': rank "), text);
      if (!in_place) CHECK_MESSAGE(contains(text, ": rank 0 at checking.cpp:"), text);
      if (!in_place) CHECK_MESSAGE(contains(text, message(", which receives ", expected, " from it")), text);
      for (std::size_t i = 0; i < received.size(); ++i) CHECK(received(i) == 0);
    }
  }
}

TEST_CASE("an uneven all_to_all, with other collectives under way") {
  const Communicator world(MPI_COMM_WORLD, "world", checked);
  const View<int> first("first", 20), second("second", 20), sum("sum", 1);
  sum(0) = 1;
  Request one = uneven(world, first, 1), reduction = kerkis::all_reduce(Host(), world, sum);
  Request two = uneven(world, second, 1);
  if (world.rank() % 2 == 0) two.wait();
  one.wait();
  reduction.wait();
  two.wait();
  CHECK(sum(0) == world.size());
  std::size_t i = 0;
  for (int rank = 0; rank < world.size(); ++rank)
    for (int j = 0; j <= rank; ++j, ++i) CHECK((first(i) == rank && second(i) == rank));
}

TEST_CASE("what a failure has stopped is not said to be never finished") {
  CapturedStderr captured;
  {
    const View<float> view("view", 4);
    try {
      const Communicator world(MPI_COMM_WORLD, "world", checked);
      const Request pending = kerkis::all_reduce(Host(), world, view);
      kerkis::broadcast(Host(), world, view, {.root = world.rank() == 0 ? 0 : 1}).wait();
    } catch (const CommError&) {
    }
  }
  CHECK(captured.text().empty());
}

TEST_CASE("requests waited for in other orders, of several communicators") {
  const Communicator world(MPI_COMM_WORLD, "world", checked);
  const Communicator part = world.split(world.rank() % 2, 0, "part"), all = world.split(0, -world.rank(), "all");
  CHECK(world.state()->engine->options().check);
  constexpr int n = 30;
  std::vector<View<int>> views;
  std::vector<Request> requests;
  for (int i = 0; i < n; ++i) {
    views.emplace_back("view", 3);
    Kokkos::deep_copy(views.back(), i);
    requests.push_back(kerkis::all_reduce(Host(), i % 3 == 0 ? world : i % 3 == 1 ? part : all, views.back()));
  }
  // Even ranks from the front, odd ones from the back, rank 2 by polling alone.
  if (world.rank() == 2)
    for (int polls = 0; polls < 200; ++polls) {
      world.poll();
      std::this_thread::sleep_for(50us);
    }
  for (int i = 0; i < n; ++i) requests[static_cast<std::size_t>(world.rank() % 2 == 0 ? i : n - 1 - i)].wait();
  for (int i = 0; i < n; ++i)
    CHECK(views[static_cast<std::size_t>(i)](2) == i * (i % 3 == 1 ? part.size() : world.size()));
}

TEST_CASE("a rank that only polls, hand-offs between, dropped and detached requests") {
  const Communicator world(MPI_COMM_WORLD, "world", checked);
  const int rank = world.rank(), last = world.size() - 1;
  const View<int> sum("sum", 1), token("token", 1), big("big", 100'000);
  sum(0) = 1;
  Request reduction = kerkis::all_reduce(Host(), world, sum);
  // The last rank gets its token when the others have the sum; until then it only polls.
  if (rank == 0) {
    reduction.wait();
    token(0) = 5;
    kerkis::send(Host(), world, token, {.to = last}).wait();
  } else if (rank == last) {
    Request received = kerkis::receive(Host(), world, token, {.from = 0});
    while (!received.test()) {
    }
    CHECK(token(0) == 5);
  }
  reduction.wait();
  CHECK(sum(0) == world.size());
  kerkis::broadcast(Host(), world, big).detach();
  kerkis::barrier(world);  // dropped, which waits
  kerkis::barrier(world).detach();
  const View<int> last_sum("last_sum", 1);
  last_sum(0) = 1;
  kerkis::all_reduce(Host(), world, last_sum).wait();
  CHECK(last_sum(0) == world.size());
}

/// Two all_reduces one after the other: the second starts when the first is complete.
class TwoSums final : public kerkis::comm::Steps {
 public:
  TwoSums(MPI_Comm native, View<int> view) : Steps(true), native_(native), view_(std::move(view)) {}
  bool next(MPI_Request& request, const MPI_Status&) override {
    if (std::exchange(second_, true)) return true;
    MPI_Iallreduce(MPI_IN_PLACE, view_.data(), 1, MPI_INT, MPI_SUM, native_, &request);
    return false;
  }

 private:
  MPI_Comm native_;
  View<int> view_;
  bool second_ = false;
};

TEST_CASE("what is called after a collective of several steps starts after its last") {
  for (const bool check : {false, true}) {
    const Communicator world(MPI_COMM_WORLD, "world", {.check = check});
    for (int round = 0; round < 20; ++round) {
      const View<int> two("two", 1), one("one", 1);
      two(0) = one(0) = 1;
      Request first = Request::start(
          world, {.name = "two_sums", .count = 1, .where = std::source_location::current()}, {},
          std::make_unique<TwoSums>(world.native(), two), [two, native = world.native()](MPI_Request* request) {
            return MPI_Iallreduce(MPI_IN_PLACE, two.data(), 1, MPI_INT, MPI_SUM, native, request);
          });
      if (world.rank() % 2 == 0) first.wait();
      Request second = kerkis::all_reduce(Host(), world, one);
      if (round % 2 == 0) second.wait();
      first.wait();
      second.wait();
      CHECK(one(0) == world.size());
      CHECK(two(0) == world.size() * world.size());
    }
  }
}

TEST_CASE("a View that is written while it is sent") {
  const View<double> view("view", 200'000);  // more than MPI buffers
  for (const bool persistent : {false, true}) {
    const Communicator world(MPI_COMM_WORLD, "world", checked);
    std::string text;
    if (world.rank() == 0) {
      auto again = kerkis::persistent_send(Host(), world, view, {.to = 1});
      Request request = persistent ? again.start() : kerkis::send(Host(), world, view, {.to = 1});
      view(70'000) += 1;
      text = thrown<CommError>([&] { request.wait(); });
    } else {
      text = thrown<CommError>([&] {
        if (world.rank() == 1) kerkis::receive(Host(), world, view, {.from = 0}).wait();
        for (;;) world.poll();
      });
    }
    CHECK_MESSAGE(contains(text, "send #1 of 200000 double to rank 1 over 'world'"), text);
    CHECK_MESSAGE(contains(text, "its View was written before the operation was complete"), text);
  }
}

TEST_CASE("two root communicators, whose requests the ranks wait for in opposite orders") {
  const Communicator one(MPI_COMM_WORLD, "one", checked), two(MPI_COMM_WORLD, "two", checked);
  const bool turned = one.rank() % 2 == 1;
  for (int round = 0; round < 60; ++round) {
    const View<int> sum("sum", 3), all("all", 20);
    Kokkos::deep_copy(sum, round);
    Request first = kerkis::all_reduce(Host(), one, sum), second = uneven(two, all, 1);
    Request behind = kerkis::barrier(one), last = kerkis::barrier(two);
    std::vector<std::reference_wrapper<Request>> order{first, behind, second, last};
    if (turned) std::swap(order[0], order[2]), std::swap(order[1], order[3]);
    switch (round % 4) {
    case 0:
      for (Request& request : order) request.wait();
      break;
    case 1:
      for (Request& request : order)
        while (!request.test()) std::this_thread::yield();
      break;
    case 2:
      kerkis::wait_all(order[0].get(), order[1].get());
      kerkis::wait_all(order[2].get(), order[3].get());
      break;
    default:
      if (turned) kerkis::wait_all(order);
      for (Request& request : order) request.wait();
    }
    CHECK(sum(2) == round * one.size());
    CHECK(all(1) == 1);
  }
}

TEST_CASE("what makes or ends a root communicator moves on what is pending in another") {
  const Communicator world(MPI_COMM_WORLD, "world", checked);
  for (int round = 0; round < 20; ++round) {
    const View<int> sum("sum", 1), more("more", 1);
    sum(0) = more(0) = 1;
    Request first = kerkis::all_reduce(Host(), world, sum);
    if (world.rank() % 2 == 1) first.wait();
    auto other = std::make_unique<Communicator>(MPI_COMM_WORLD, "other", checked);
    first.wait();
    Request second = kerkis::all_reduce(Host(), world, more);
    if (world.rank() % 2 == 1) second.wait();
    other.reset();
    second.wait();
    CHECK(sum(0) == world.size());
    CHECK(more(0) == world.size());
  }
}

TEST_CASE("what fails in one root communicator is thrown by its own calls, not in waits on another") {
  const Communicator sound(MPI_COMM_WORLD, "sound", checked);
  const View<int> sum("sum", 1);
  sum(0) = 1;
  const int rank = sound.rank(), last = sound.size() - 1;
  for (const bool mismatch : {true, false}) {
    const Communicator failing(MPI_COMM_WORLD, "failing", checked);
    Request first = rank == last && mismatch ? kerkis::barrier(failing)
                                             : kerkis::all_reduce(Host(), failing, View<float>("view", 4));
    Request second = kerkis::all_reduce(Host(), sound, sum);
    CHECK_NOTHROW(second.wait());
    if (mismatch) {
      CHECK_NOTHROW([&] {
        while (!failing.poisoned()) sound.poll();
      }());
    } else if (rank == last) {
      first.wait();
      failing.announce("gives up on purpose");
    }
    CHECK_NOTHROW(kerkis::barrier(sound).wait());
    const std::string text = thrown<CommError>([&] {
      first.wait();
      for (;;) failing.poll();
    });
    CHECK_MESSAGE(contains(text, mismatch ? "mismatched collectives #1 over 'failing': rank 0 entered" : "on purpose"),
                  text);
    CHECK(thrown<CommError>([&] { kerkis::barrier(failing).wait(); }) == text);
    CHECK_NOTHROW(kerkis::barrier(sound).wait());
  }
  CHECK(sum(0) == last + 1 + (last + 1) * last);
}

/// A wait that ends when it is let go.
struct Gate {
  std::atomic<bool> reached = false, open = false;
};
class Held final : public kerkis::comm::Steps {
 public:
  explicit Held(Gate& gate) : Steps(true), gate_(gate) {}
  bool next(MPI_Request&, const MPI_Status&) override {
    gate_.reached = true;
    return gate_.open;
  }

 private:
  Gate& gate_;
};
Request hold(const Communicator& communicator, Gate& gate, const char* name = "held") {
  return Request::start(communicator, {.name = name, .collective = false, .where = std::source_location::current()}, {},
                        std::make_unique<Held>(gate), [](MPI_Request* request) {
                          *request = MPI_REQUEST_NULL;
                          return MPI_SUCCESS;
                        });
}

TEST_CASE("a second thread in a communicator is refused, and changes nothing") {
  const Communicator world(MPI_COMM_WORLD, "world", checked);
  const Communicator part = world.split(0, 0, "part");
  Gate gate;
  Request held = hold(world, gate), other = hold(part, gate, "other");
  const View<int> sum("sum", 1);
  sum(0) = 1;
  std::vector<std::string> texts;
  std::thread second([&] {
    while (!gate.reached) std::this_thread::yield();
    for (const std::function<void()>& call : std::vector<std::function<void()>>{
             [&] { world.poll(); }, [&] { part.poll(); }, [&] { static_cast<void>(other.test()); },
             [&] { other.wait(); }, [&] { other.detach(); }, [&] { static_cast<void>(kerkis::test_all(other)); },
             [&] { kerkis::barrier(part).wait(); }, [&] { kerkis::all_reduce(Host(), world, sum).wait(); },
             [&] { kerkis::send(Host(), world, sum, {.to = (world.rank() + 1) % world.size()}).wait(); }})
      texts.push_back(thrown<kerkis::InputError>(call));
    gate.open = true;
  });
  held.wait();
  second.join();
  for (const std::string& text : texts) {
    CHECK_MESSAGE(contains(text, message("rank ", world.rank(),
                                         ": two threads use communicator 'world' at the same "
                                         "time: one comes to ")),
                  text);
    CHECK_MESSAGE(contains(text, ", while another is in the wait for held, called at checking.cpp:"), text);
  }
  CHECK_MESSAGE(contains(texts[0], "one comes to poll, while"), texts[0]);
  CHECK_MESSAGE(contains(texts[2], "one comes to a test of other, called at checking.cpp:"), texts[2]);
  CHECK_MESSAGE(contains(texts[6], "one comes to the start of barrier, called at checking.cpp:"), texts[6]);
  CHECK_MESSAGE(contains(texts[7], "one comes to kerkis::all_reduce, while"), texts[7]);
  CHECK_MESSAGE(contains(texts[8], "one comes to send, while"), texts[8]);
  other.wait();
  CHECK_NOTHROW(kerkis::all_reduce(Host(), world, sum).wait());
  CHECK(sum(0) == world.size());
}

TEST_CASE("what a second thread announces, the one in the wait throws") {
  const Communicator world(MPI_COMM_WORLD, "world", checked);
  Gate gate;
  Request held = hold(world, gate);
  std::string text;
  std::thread second([&] {
    while (!gate.reached) std::this_thread::yield();
    text = thrown<kerkis::InputError>([&] { world.guard([&] { world.poll(); }); });
  });
  const std::string heard = thrown<CommError>([&] { held.wait(); });
  second.join();
  CHECK_MESSAGE(contains(text, "two threads use communicator 'world' at the same time: one comes to poll"), text);
  CHECK_MESSAGE(contains(heard, "two threads use communicator 'world' at the same time: one comes to poll"), heard);
  CHECK(world.poisoned());
  gate.open = true;
}

TEST_CASE("a thread that did not initialise MPI is refused below MPI_THREAD_SERIALIZED") {
  int level = MPI_THREAD_MULTIPLE;
  MPI_Query_thread(&level);
  if (level >= MPI_THREAD_SERIALIZED) return;
  const Communicator world(MPI_COMM_WORLD, "world", checked), failing(MPI_COMM_WORLD, "failing", checked);
  const View<int> sum("sum", 1);
  sum(0) = 1;
  Request pending = kerkis::all_reduce(Host(), world, sum);
  std::vector<std::string> texts;
  std::string made;
  std::thread([&] {
    for (const std::function<void()>& call : std::vector<std::function<void()>>{
             [&] { world.poll(); }, [&] { static_cast<void>(pending.test()); }, [&] { pending.wait(); },
             [&] { kerkis::barrier(world).wait(); }, [&] { kerkis::all_reduce(Host(), world, sum).wait(); },
             [&] { failing.guard([&] { failing.poll(); }); }})
      texts.push_back(thrown<kerkis::InputError>(call));
    made = thrown<kerkis::InputError>([] { Communicator(MPI_COMM_WORLD, "of another thread"); });
  }).join();
  CHECK_MESSAGE(contains(made, ": a thread that did not initialise MPI makes 'of another thread', but MPI "), made);
  for (const std::string& text : texts) {
    CHECK_MESSAGE(contains(text, message("rank ", world.rank(), ": a thread that did not initialise MPI uses ")), text);
    CHECK_MESSAGE(contains(text, level == MPI_THREAD_SINGLE ? "with MPI_THREAD_SINGLE;" : "with MPI_THREAD_FUNNELED;"),
                  text);
  }
  CHECK_MESSAGE(contains(texts[0], "communicator 'world': it comes to poll, but"), texts[0]);
  CHECK_MESSAGE(contains(texts[2], "it comes to the wait for all_reduce, called at checking.cpp:"), texts[2]);
  CHECK_NOTHROW(pending.wait());
  CHECK(sum(0) == world.size());
  CHECK_NOTHROW(kerkis::barrier(world).wait());
  // What such a thread announces, the right one tells the others.
  const std::string heard = thrown<CommError>([&] {
    for (;;) failing.poll();
  });
  CHECK_MESSAGE(contains(heard, "a thread that did not initialise MPI uses communicator 'failing'"), heard);
}

TEST_CASE("the environment of rank 0 decides") {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const auto with = [&](const char* text) {
    if (rank == 0)
      setenv("KERKIS_CHECK", text, 1);
    else
      unsetenv("KERKIS_CHECK");
  };
  const char* const before = std::getenv("KERKIS_CHECK");
  const std::string kept = before != nullptr ? before : "";
  for (const std::string text : {"0", "1", "strict"}) {
    with(text.c_str());
    const Communicator world(MPI_COMM_WORLD);
    CHECK(world.state()->engine->options().check == (text != "0"));
    CHECK(world.state()->engine->options().strict_call_sites == (text == "strict"));
  }
  with("yes");
  CHECK(refusal([] { Communicator{MPI_COMM_WORLD}; }) ==
        "Communicator: KERKIS_CHECK is neither 0, 1 nor strict on rank 0, but yes");
  if (before != nullptr)
    setenv("KERKIS_CHECK", kept.c_str(), 1);
  else
    unsetenv("KERKIS_CHECK");
}

}  // namespace
