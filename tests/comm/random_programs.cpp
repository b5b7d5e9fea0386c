// SPDX-License-Identifier: Apache-2.0
// Random programs of all operations, with random delays and orders of waiting, give what their seed says; a program
// that one rank has otherwise is caught by the checking mode. KERKIS_TEST_SEEDS=N runs so many programs of each.
#include <doctest/doctest.h>
#include <kerkis/comm/request_range.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <ranges>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "random_parts.hpp"
#include "random_steps.hpp"
#include "thrown.hpp"

using namespace std::chrono_literals;

namespace {

using namespace random_programs;

class Program {
 public:
  Program(const Communicator& world, unsigned seed)
      : seed_(seed), own_(seed * 64 + static_cast<unsigned>(world.rank())) {
    std::vector<int> all, parity, reversed;
    for (int rank = 0; rank < world.size(); ++rank) {
      all.push_back(rank);
      if (rank % 2 == world.rank() % 2) parity.push_back(rank);
      reversed.insert(reversed.begin(), rank);
    }
    groups_.emplace_back(world, all);
    groups_.emplace_back(world.split(world.rank() % 2, 0, "parity"), parity);
    groups_.emplace_back(world.split(0, -world.rank(), "reversed"), reversed);
  }

  /// Runs the steps; returns the first whose result is wrong, or nothing.
  std::string run(const std::vector<Step>& steps) {
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const Group& group = groups_[static_cast<std::size_t>(steps[i].communicator)];
      if (is_repeated(steps[i].kind))
        start_round(i, steps[i]);
      else if (steps[i].real)
        Part<double>(seed_, i, steps[i], group, own_, running_).start();
      else
        Part<int>(seed_, i, steps[i], group, own_, running_).start();
      if (one_in(own_, 8)) std::this_thread::sleep_for(std::chrono::microseconds(below(own_, 300)));
      if (one_in(own_, 6)) group.communicator.poll();
      if (one_in(own_, 3) && !running_.empty()) end_one();
      if (one_in(own_, 8)) end_a_round();
      if (one_in(own_, 12)) end_all();
    }
    end_all();
    for (Group& group : groups_)
      for (Repeated& repeated : group.repeated) end(repeated);
    return wrong_;
  }

 private:
  void start_round(std::size_t number, const Step& step) {
    Group& group = groups_[static_cast<std::size_t>(step.communicator)];
    const Part<int> part(seed_, number, step, group, own_, running_);
    const int rank = group.communicator.rank(), size = group.communicator.size();
    const auto begin = [&](Group::Round round, auto expected) {
      Repeated& repeated = group.repeated[round];
      end(repeated);
      repeated.name = part.name();
      repeated.expected.clear();
      for (std::size_t i = 0; i < repeated.view.size(); ++i) {
        repeated.view(i) = part.value(rank, i);
        repeated.expected.push_back(expected(i));
      }
      repeated.round = repeated.request.start();
    };
    if (step.kind == Kind::repeated_all_reduce)
      return begin(Group::sum, [&](std::size_t i) { return part.reduced(kerkis::Reduction::sum, size, i); });
    if (step.kind == Kind::repeated_broadcast)
      return begin(Group::copy, [&](std::size_t i) { return part.value(size - 1, i); });
    if (size == 1) return;
    begin(Group::received, [&](std::size_t i) { return part.value(group.member(-1), i); });
    begin(Group::sent, [&](std::size_t i) { return part.value(rank, i); });
  }

  void check(bool right, const std::string& name) {
    if (!right && wrong_.empty()) wrong_ = name;
  }

  /// By a wait or by tests, as it happens.
  void complete(Request& request) {
    if (one_in(own_, 2))
      while (!request.test()) std::this_thread::yield();
    request.wait();
  }

  void end(Repeated& repeated) {
    if (repeated.expected.empty()) return;  // it has never been started
    complete(repeated.round);
    check(holds(repeated.view, repeated.expected), repeated.name);
  }

  void end_a_round() {
    Group& group = groups_[static_cast<std::size_t>(below(own_, 3))];
    end(group.repeated[static_cast<std::size_t>(below(own_, Group::rounds))]);
  }

  void end_one() {
    const auto place = running_.begin() + below(own_, static_cast<int>(running_.size()));
    complete(place->request);
    check(place->is_right(), place->name);
    running_.erase(place);
  }

  /// What is complete must be right at once, and still be when all are.
  void end_all() {
    std::shuffle(running_.begin(), running_.end(), own_);
    const auto requests = running_ | std::views::transform(&Running::request);
    switch (below(own_, 6)) {
    case 0:
      kerkis::wait_all(requests);
      break;
    case 1:
      while (const auto i = kerkis::wait_any(requests)) check(running_[*i].is_right(), running_[*i].name);
      break;
    case 2:
      for (auto found = kerkis::wait_some(requests); !found.empty(); found = kerkis::wait_some(requests))
        for (const std::size_t i : found) check(running_[i].is_right(), running_[i].name);
      break;
    case 3:
      while (!kerkis::test_all(requests)) std::this_thread::yield();
      break;
    case 4:
      while (!kerkis::test_all(requests))
        if (const auto i = kerkis::test_any(requests)) check(running_[*i].is_right(), running_[*i].name);
      break;
    default:
      for (Running& one : running_) complete(one.request);
    }
    for (const Running& one : running_) check(one.is_right(), one.name);
    running_.clear();
  }

  unsigned seed_;
  std::vector<Group> groups_;
  Random own_;  // of this rank alone
  std::vector<Running> running_;
  std::string wrong_;
};

/// How many programs a case runs.
unsigned seeds(unsigned usual) {
  const char* const given = std::getenv("KERKIS_TEST_SEEDS");
  return given != nullptr ? static_cast<unsigned>(std::atoi(given)) : usual;
}

constexpr int length = 60;

TEST_CASE("random programs give what their seed says") {
  const unsigned most = seeds(16);
  for (unsigned seed = 1; seed <= most; ++seed) {
    CAPTURE(seed);
    kerkis::CommunicatorOptions options{.wait = {.deadline = 60s}};
    if (seed % 4 == 1) options.largest_count = 17;
    options.stage = seed % 4 == 2;
    options.check = seed % 4 == 3 || seed % 8 == 5;
    options.strict_call_sites = seed % 8 == 7;
    const Communicator world(MPI_COMM_WORLD, "world", options);
    Random random(seed);
    CHECK(Program(world, seed).run(random_steps(random, length, 3000)) == "");
  }
}

TEST_CASE("a program that one rank has otherwise is caught") {
  const unsigned most = std::min(seeds(2 * collectives), 250U);  // MPICH has no more than 2,048 communicators to leak
  for (unsigned seed = 1; seed <= most; ++seed) {
    const Communicator world(MPI_COMM_WORLD, "world", {.wait = {.deadline = 20s}, .check = true});
    if (world.size() == 1) return;
    // Short messages: UCX aborts MPI_Finalize where long ones are left pending.
    Random random(seed);
    auto steps = random_steps(random, length, 40);
    const auto place = static_cast<std::size_t>(below(random, length));
    steps[place].kind = collective_number(seed);
    if (steps[place].communicator == 1) steps[place].communicator = 0;  // the other parity would not hear of it
    auto mutated = steps;
    const auto change = mutate(mutated, place, random, world.size());
    const int victim = below(random, world.size());
    const std::string text =
        thrown<kerkis::CommError>([&] { Program(world, seed).run(world.rank() == victim ? mutated : steps); });
    const bool caught =
        contains(text, "mismatched collectives #") || contains(text, "mismatched counts of all_to_all #");
    CHECK_MESSAGE(caught, "seed ", seed, ": another ", change, " at step ", place, " (", name_of(steps[place].kind),
                  "): ", text);
  }
}

}  // namespace
