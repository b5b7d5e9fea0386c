// SPDX-License-Identifier: Apache-2.0
// The verifier rejects every sound table that was broken. Whether a change broke it is decided by a second reading of
// what soundness is: all computations are there once, and the order of lists and data is free of cycles.
#include <doctest/doctest.h>

#include <kerkis/schedule/registry.hpp>
#include <kerkis/schedule/verifier.hpp>

#include <array>
#include <cstddef>
#include <limits>
#include <map>
#include <random>
#include <string_view>
#include <utility>
#include <vector>

#include "candidate.hpp"

using namespace kerkis::schedule;

namespace {

/// The breadth-first peeling of a graph: each action needs the one before it in its list and those whose data it takes.
/// Blind to communication: sound means free of deadlock at some depth.
bool sound(const Candidate& c) {
  const int stages = c.shape.stages();
  const std::size_t per_kind = static_cast<std::size_t>(stages * c.shape.microbatches);
  std::vector<int> owner(3 * per_kind, -1);  // of forward, backward_input, backward_weight: the action that computes it
  const auto place = [&](int what, int stage, int m) {
    return static_cast<std::size_t>(what) * per_kind + static_cast<std::size_t>(stage * c.shape.microbatches + m);
  };
  const auto stage_of = [&](std::size_t rank, int chunk) {
    return c.stages[rank * static_cast<std::size_t>(c.shape.chunks) + static_cast<std::size_t>(chunk)];
  };
  int actions = 0;
  std::vector<std::array<int, 3>> needs;  // of each action, by number
  const auto each = [&](auto&& f) {
    int number = 0;
    for (std::size_t rank = 0; rank < c.lists.size(); ++rank) {
      for (const Action& action : c.lists[rank]) f(number++, rank, action);
    }
  };
  bool valid = true;
  each([&](int number, std::size_t rank, const Action& action) {
    ++actions;
    if (action.microbatch < 0 || action.microbatch >= c.shape.microbatches || action.chunk < 0 ||
        action.chunk >= c.shape.chunks) {
      valid = false;
      return;
    }
    const int stage = stage_of(rank, action.chunk);
    const auto own = [&](int what) {
      int& mine = owner[place(what, stage, action.microbatch)];
      valid = valid && mine < 0;
      mine = number;
    };
    if (action.kind == ActionKind::forward) own(0);
    if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_input) own(1);
    if (action.kind == ActionKind::backward || action.kind == ActionKind::backward_weight) own(2);
  });
  if (!valid) return false;
  for (const int one : owner) {
    if (one < 0) return false;
  }

  std::vector<int> missing(static_cast<std::size_t>(actions), 0);
  std::vector<std::vector<int>> followers(static_cast<std::size_t>(actions));
  const auto after = [&](int later, int earlier) {
    followers[static_cast<std::size_t>(earlier)].push_back(later);
    ++missing[static_cast<std::size_t>(later)];
  };
  std::size_t last_rank = c.lists.size();
  each([&](int number, std::size_t rank, const Action& action) {
    if (rank == last_rank) after(number, number - 1);
    last_rank = rank;
    const int stage = stage_of(rank, action.chunk), m = action.microbatch;
    switch (action.kind) {
    case ActionKind::forward:
      if (stage > 0) after(number, owner[place(0, stage - 1, m)]);
      break;
    case ActionKind::backward:
    case ActionKind::backward_input:
      after(number, owner[place(0, stage, m)]);
      if (stage + 1 < stages) after(number, owner[place(1, stage + 1, m)]);
      break;
    case ActionKind::backward_weight:
      after(number, owner[place(1, stage, m)]);
      break;
    }
  });
  std::vector<int> ready;
  for (int k = 0; k < actions; ++k) {
    if (missing[static_cast<std::size_t>(k)] == 0) ready.push_back(k);
  }
  int done = 0;
  while (!ready.empty()) {
    const int one = ready.back();
    ready.pop_back();
    ++done;
    for (const int next : followers[static_cast<std::size_t>(one)]) {
      if (--missing[static_cast<std::size_t>(next)] == 0) ready.push_back(next);
    }
  }
  return done == actions;
}

}  // namespace

TEST_CASE("10,000 mutations that break order, completeness or freedom from deadlock") {
  std::vector<Candidate> all;
  for (const std::string_view name : Known::names) {
    for (const PipelineShape shape : {PipelineShape{2, 3}, {3, 8}, {4, 5}, {5, 2}, {8, 12}}) {
      const bool open = name == "interleaved" || name == "bfs";
      all.push_back(candidate(make_table(name, {shape.ranks, shape.microbatches, open ? 3 : 1})));
      CHECK(sound(all.back()));
    }
  }
  std::mt19937 random(24011024);
  std::map<Fault, int> tally;
  int broken = 0, still_sound = 0, wrong = 0;
  while (broken < 10000) {
    Candidate c = all[random() % all.size()];
    // mostly a single change, since two hide less well
    for (auto k = random() % 4 == 0 ? 2 : 1; k > 0; --k) mutate(c, random);
    const bool expected = sound(c);
    const Report report = verify(c.table(), unbounded);
    ++tally[report.fault];
    wrong += report.ok() != expected;
    broken += !expected;
    still_sound += expected;
  }
  CHECK(wrong == 0);
  CHECK(still_sound > 500);
  for (const Fault fault : {Fault::bad_action, Fault::doubled, Fault::missing, Fault::misordered, Fault::deadlock}) {
    CAPTURE(to_string(fault));
    CHECK(tally[fault] >= 200);
  }
}

TEST_CASE("nonsense tables are reported and never crash") {
  std::mt19937 random(5362);
  const auto number = [&](int below) {
    constexpr int extremes[] = {-1, std::numeric_limits<int>::min(), std::numeric_limits<int>::max()};
    const auto pick = random() % 40;
    return pick < 3 ? extremes[pick] : static_cast<int>(random() % static_cast<unsigned>(below));
  };
  std::map<Fault, int> tally;
  for (int trial = 0; trial < 20000; ++trial) {
    const PipelineShape shape{static_cast<int>(random() % 4), static_cast<int>(random() % 4),
                              static_cast<int>(random() % 3)};
    std::vector<ActionList> lists(random() % 10 == 0 ? random() % 5 : static_cast<std::size_t>(shape.ranks));
    for (ActionList& list : lists) {
      for (auto k = random() % 6; k > 0; --k) {
        const auto kind = random() % 20 == 0 ? random() % 256 : random() % 4;
        list.append({static_cast<ActionKind>(kind), number(3), number(2)});
      }
    }
    std::vector<int> stages;
    for (auto k = random() % 2 == 0 ? shape.stages() : static_cast<int>(random() % 7); k > 0; --k) {
      stages.push_back(number(6));
    }
    const Purpose purpose = random() % 2 == 0 ? Purpose::training : Purpose::inference;
    const int feedback = random() % 2 == 0 ? 0 : number(4);
    const Report report = verify(Table(shape, std::move(lists), std::move(stages), purpose, feedback));
    ++tally[report.fault];
    CHECK_FALSE(explain(report).empty());
  }
  for (const Fault fault : {Fault::bad_shape, Fault::bad_action, Fault::doubled, Fault::missing}) {
    CAPTURE(to_string(fault));
    CHECK(tally[fault] > 10);
  }
}
