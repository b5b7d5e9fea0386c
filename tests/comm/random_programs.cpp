// SPDX-License-Identifier: Apache-2.0
// Random programs of nonblocking operations, with random delays and orders of waiting, give what a serial model gives;
// a program that one rank has otherwise is caught by the checking mode.
#include <doctest/doctest.h>
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/reduce_scatter.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "thrown.hpp"

using namespace std::chrono_literals;

namespace {

using kerkis::CommError;
using kerkis::Communicator;
using kerkis::Reduction;
using kerkis::Request;
using Host = Kokkos::DefaultHostExecutionSpace;
using Random = std::mt19937;

int below(Random& random, int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }

enum class Kind { all_reduce, broadcast, all_gather, reduce_scatter, barrier, ring };

/// What all ranks of a communicator do, on `count` elements (of each rank, where ranks have blocks).
struct Step {
  Kind kind;
  int communicator;  // 0: the world, 1: ranks of equal parity, 2: all in reverse
  int count;
  int root;  // modulo the size
  Reduction reduction;
  bool wide;  // int64 elements, else int32
};

Step random_step(Random& random, int communicators, int most) {
  constexpr std::array reductions{Reduction::sum, Reduction::minimum, Reduction::maximum};
  return {static_cast<Kind>(below(random, 6)),
          below(random, communicators),
          below(random, 5) == 0 ? most : below(random, 20),
          below(random, 12),
          reductions[static_cast<std::size_t>(below(random, 3))],
          below(random, 2) == 0};
}

/// Element i of what rank `rank` of the world puts into step `step`.
int value(unsigned seed, std::size_t step, int rank, int i) {
  const std::uint32_t mixed = (seed * 31u + static_cast<unsigned>(step) * 7919u +
                               static_cast<unsigned>(rank) * 104'729u + static_cast<unsigned>(i)) *
                              2'654'435'761u;
  return static_cast<int>(mixed >> 16) - 30'000;
}

/// A step under way on this rank: what it waits for, and a check of the result.
struct Running {
  std::vector<Request> requests;
  std::function<bool()> is_right;
};

class Program {
 public:
  Program(const Communicator& world, unsigned seed)
      : seed_(seed),
        communicators_{world, world.split(world.rank() % 2, 0, "parity"), world.split(0, -world.rank(), "reverse")},
        delays_(seed * 64 + static_cast<unsigned>(world.rank())) {
    for (int rank = 0; rank < world.size(); ++rank) {
      members_[0].push_back(rank);
      if (rank % 2 == world.rank() % 2) members_[1].push_back(rank);
      members_[2].insert(members_[2].begin(), rank);
    }
  }

  /// Runs the steps; says whether all results are right.
  bool run(const std::vector<Step>& steps) {
    bool right = true;
    std::vector<Running> running;
    const auto end_one = [&] {
      const auto place = running.begin() + below(delays_, static_cast<int>(running.size()));
      std::shuffle(place->requests.begin(), place->requests.end(), delays_);
      for (Request& request : place->requests) {
        if (below(delays_, 2) == 0)
          while (!request.test()) std::this_thread::yield();
        request.wait();
      }
      right &= place->is_right();
      running.erase(place);
    };
    for (std::size_t i = 0; i < steps.size(); ++i) {
      running.push_back(steps[i].wide ? start<std::int64_t>(i, steps[i]) : start<std::int32_t>(i, steps[i]));
      const int choice = below(delays_, 8);
      if (choice == 0) std::this_thread::sleep_for(std::chrono::microseconds(below(delays_, 300)));
      if (choice == 1) communicators_[0].poll();
      if (choice >= 4 || running.size() > 12) end_one();
    }
    while (!running.empty()) end_one();
    return right;
  }

 private:
  template <class T>
  using View = Kokkos::View<T*, Kokkos::HostSpace>;

  template <class T>
  View<T> filled(std::size_t step, int rank, int count) const {
    View<T> view("view", static_cast<std::size_t>(count));
    for (int i = 0; i < count; ++i) view(static_cast<std::size_t>(i)) = value(seed_, step, rank, i);
    return view;
  }

  /// The reduction of element i over the members.
  template <class T>
  T reduced(std::size_t step, const Step& what, int i) const {
    const auto& members = members_[static_cast<std::size_t>(what.communicator)];
    T result = value(seed_, step, members.front(), i);
    for (std::size_t member = 1; member < members.size(); ++member) {
      const T other = value(seed_, step, members[member], i);
      result = what.reduction == Reduction::sum       ? result + other
               : what.reduction == Reduction::minimum ? std::min(result, other)
                                                      : std::max(result, other);
    }
    return result;
  }

  template <class T, class Expected>
  static bool equals(const View<T>& view, Expected&& expected) {
    for (std::size_t i = 0; i < view.size(); ++i)
      if (view(i) != expected(static_cast<int>(i))) return false;
    return true;
  }

  template <class T>
  Running start(std::size_t step, const Step& what) {
    const auto index = static_cast<std::size_t>(what.communicator);
    const Communicator& communicator = communicators_[index];
    const std::vector<int>& members = members_[index];
    const int size = communicator.size(), rank = communicator.rank(), own = communicators_[0].rank();
    const int count = what.count, root = what.root % size;
    Running result;
    const auto add = [&](Request request) { result.requests.push_back(std::move(request)); };
    result.is_right = [] { return true; };
    switch (what.kind) {
    case Kind::all_reduce: {
      const auto view = filled<T>(step, own, count);
      add(kerkis::all_reduce(Host(), communicator, view, {.operation = what.reduction}));
      result.is_right = [=, this] { return equals(view, [&](int i) { return reduced<T>(step, what, i); }); };
      break;
    }
    case Kind::broadcast: {
      const auto view = filled<T>(step, own, count);
      add(kerkis::broadcast(Host(), communicator, view, {.root = root}));
      result.is_right = [=, this] {
        return equals(view,
                      [&](int i) { return value(seed_, step, members_[index][static_cast<std::size_t>(root)], i); });
      };
      break;
    }
    case Kind::all_gather: {
      const View<T> all("all", static_cast<std::size_t>(count * size));
      add(kerkis::all_gather(Host(), communicator, filled<T>(step, own, count), all));
      result.is_right = [=, this] {
        return equals(all, [&](int i) {
          return value(seed_, step, members_[index][static_cast<std::size_t>(i / count)], i % count);
        });
      };
      break;
    }
    case Kind::reduce_scatter: {
      const View<T> block("block", static_cast<std::size_t>(count));
      add(kerkis::reduce_scatter(Host(), communicator, filled<T>(step, own, count * size), block,
                                 {.operation = what.reduction}));
      result.is_right = [=, this] {
        return equals(block, [&](int i) { return reduced<T>(step, what, rank * count + i); });
      };
      break;
    }
    case Kind::barrier:
      add(kerkis::barrier(communicator));
      break;
    case Kind::ring: {
      if (size == 1) break;
      const int from = (rank + size - 1) % size;
      const View<T> view("received", static_cast<std::size_t>(count));
      add(kerkis::receive(Host(), communicator, view, {.from = from}));
      add(kerkis::send(Host(), communicator, filled<T>(step, own, count), {.to = (rank + 1) % size}));
      result.is_right = [=, this, sender = members[static_cast<std::size_t>(from)]] {
        return equals(view, [&](int i) { return value(seed_, step, sender, i); });
      };
      break;
    }
    }
    return result;
  }

  unsigned seed_;
  std::array<Communicator, 3> communicators_;
  std::array<std::vector<int>, 3> members_;  // ranks of the world
  Random delays_;                            // of this rank alone
};

std::vector<Step> random_steps(unsigned seed, int n, int most) {
  Random random(seed);
  std::vector<Step> steps;
  for (int i = 0; i < n; ++i) steps.push_back(random_step(random, 3, most));
  return steps;
}

/// Changes one step over the world, so that its fingerprint is another; says what it did.
std::string mutate(std::vector<Step>& steps, Random& random, int ranks) {
  for (;;) {
    const auto place = static_cast<std::size_t>(below(random, static_cast<int>(steps.size())));
    Step& step = steps[place];
    if (step.communicator != 0 || step.kind == Kind::ring) continue;
    const bool reduces = step.kind == Kind::all_reduce || step.kind == Kind::reduce_scatter;
    switch (below(random, 6)) {
    case 0:
      step.kind = step.kind == Kind::broadcast ? Kind::all_gather : Kind::broadcast;
      return "operation";
    case 1:
      if (step.kind == Kind::barrier) continue;
      ++step.count;
      return "count";
    case 2:
      if (step.kind != Kind::broadcast) continue;
      step.root = (step.root % ranks + 1) % ranks;
      return "root";
    case 3:
      if (!reduces) continue;
      step.reduction = step.reduction == Reduction::sum ? Reduction::minimum : Reduction::sum;
      return "reduction";
    case 4:
      if (step.kind == Kind::barrier) continue;
      step.wide = !step.wide;
      return "type";
    default: {
      const auto next = std::find_if(steps.begin() + static_cast<std::ptrdiff_t>(place) + 1, steps.end(),
                                     [](const Step& other) { return other.communicator == 0; });
      if (next == steps.end() || next->kind == step.kind || next->kind == Kind::ring) continue;
      std::swap(*next, step);
      return "order";
    }
    }
  }
}

constexpr int length = 60;

TEST_CASE("random programs give what the model gives") {
  for (unsigned seed = 1; seed <= 12; ++seed) {
    CAPTURE(seed);
    const Communicator world(MPI_COMM_WORLD, "world", {.check = seed % 3 == 0, .strict_call_sites = seed % 6 == 0});
    CHECK(Program(world, seed).run(random_steps(seed, length, 3000)));
  }
}

TEST_CASE("a program that one rank has otherwise is caught") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    const Communicator world(MPI_COMM_WORLD, "world", {.wait = {.deadline = 20s}, .check = true});
    // Short messages: UCX aborts MPI_Finalize where long ones are left pending.
    const auto steps = random_steps(seed, length, 40);
    Random random(seed + 1000);
    const int victim = below(random, world.size());
    auto mutated = steps;
    const std::string change = mutate(mutated, random, world.size());
    const std::string text =
        thrown<CommError>([&] { Program(world, seed).run(world.rank() == victim ? mutated : steps); });
    CHECK_MESSAGE(contains(text, "mismatched collectives #"), "seed " << seed << ", " << change << ": " << text);
  }
}

}  // namespace
