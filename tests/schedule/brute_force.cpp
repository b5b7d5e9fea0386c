// SPDX-License-Identifier: Apache-2.0
// The verifier against a second, slow reading of its rules that tries every interleaving of the ranks.
#include <doctest/doctest.h>

#include <kerkis/schedule/forward_only.hpp>
#include <kerkis/schedule/registry.hpp>
#include <kerkis/schedule/verifier.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "candidate.hpp"
#include "schedules.hpp"

using namespace kerkis::schedule;

namespace {

// Complete, and ordered within each rank: by looking up every pair that has an order.
bool lists_are_valid(const Candidate& c) {
  const int stages = c.shape.stages();
  std::map<std::tuple<int, int, int>, std::pair<int, int>> where;  // (F, I or W; stage; microbatch) -> rank, position
  std::size_t computations = 0;
  for (int rank = 0; rank < c.shape.ranks; ++rank) {
    int position = 0;
    for (const Action& action : c.lists[static_cast<std::size_t>(rank)]) {
      const ActionKind kind = action.kind;
      const int microbatch = action.microbatch;
      const int chunk = action.chunk;
      ++position;
      if (microbatch < 0 || microbatch >= c.shape.microbatches || chunk < 0 || chunk >= c.shape.chunks) return false;
      const int stage = c.stages[static_cast<std::size_t>(rank * c.shape.chunks + chunk)];
      const auto put = [&](int what) {
        where[{what, stage, microbatch}] = {rank, position};
        ++computations;
      };
      if (kind == ActionKind::forward) put(0);
      if (kind == ActionKind::backward || kind == ActionKind::backward_input) put(1);
      if (kind == ActionKind::backward || kind == ActionKind::backward_weight) put(2);
    }
  }
  const bool trains = c.purpose == Purpose::training;
  const std::size_t all =
      (trains ? 3 : 1) * static_cast<std::size_t>(stages) * static_cast<std::size_t>(c.shape.microbatches);
  if (computations != all || where.size() != all) return false;
  const auto in_order = [&](std::pair<int, int> earlier, std::pair<int, int> later) {
    return earlier.first != later.first || earlier.second <= later.second;
  };
  for (int stage = 0; stage < stages; ++stage) {
    for (int m = 0; m < c.shape.microbatches; ++m) {
      if (!where.contains({0, stage, m})) return false;
      if (stage > 0 && !in_order(where[{0, stage - 1, m}], where[{0, stage, m}])) return false;
      if (stage == 0 && c.feedback > 0 && m >= c.feedback) {
        if (!where.contains({0, stages - 1, m - c.feedback})) return false;
        if (!in_order(where[{0, stages - 1, m - c.feedback}], where[{0, 0, m}])) return false;
      }
      if (!trains) continue;
      if (!in_order(where[{0, stage, m}], where[{1, stage, m}])) return false;
      if (!in_order(where[{1, stage, m}], where[{2, stage, m}])) return false;
      if (stage > 0 && !in_order(where[{1, stage, m}], where[{1, stage - 1, m}])) return false;
    }
  }
  return true;
}

/// All interleavings. A state is how many events each rank has behind it; an action is receive, post the send, wait for
/// the send, each of them where it has one.
class Interleavings {
 public:
  Interleavings(const Candidate& c, Depth depth) : depth_(depth) {
    std::vector<int> rank_of(static_cast<std::size_t>(c.shape.stages()));
    for (std::size_t slot = 0; slot < c.stages.size(); ++slot) {
      rank_of[static_cast<std::size_t>(c.stages[slot])] = static_cast<int>(slot) / c.shape.chunks;
    }
    for (int rank = 0; rank < c.shape.ranks; ++rank) {
      std::vector<Event>& events = events_.emplace_back();
      for (const auto& [kind, microbatch, chunk] : c.lists[static_cast<std::size_t>(rank)]) {
        if (kind == ActionKind::backward_weight) continue;
        const int stage = c.stages[static_cast<std::size_t>(rank * c.shape.chunks + chunk)];
        const int step = kind == ActionKind::forward ? 1 : -1;
        const auto elsewhere = [&](int other) {
          return other >= 0 && other < c.shape.stages() && rank_of[static_cast<std::size_t>(other)] != rank;
        };
        const int last = c.shape.stages() - 1, first_rank = rank_of[0], last_rank = rank_of.back();
        const bool feeds_back = c.feedback > 0 && first_rank != last_rank;
        if (feeds_back && stage == 0 && microbatch >= c.feedback)
          events.push_back({Event::receive, {step, last, microbatch - c.feedback}, {step, last_rank, rank}});
        if (elsewhere(stage - step)) {
          const int peer = rank_of[static_cast<std::size_t>(stage - step)];
          events.push_back({Event::receive, {step, stage - step, microbatch}, {step, peer, rank}});
        }
        if (elsewhere(stage + step)) {
          const int peer = rank_of[static_cast<std::size_t>(stage + step)];
          events.push_back({Event::post, {step, stage, microbatch}, {step, rank, peer}});
          events.push_back({Event::wait, {step, stage, microbatch}, {step, rank, peer}});
        }
        if (feeds_back && stage == last && microbatch + c.feedback < c.shape.microbatches) {
          events.push_back({Event::post, {step, last, microbatch}, {step, rank, first_rank}});
          events.push_back({Event::wait, {step, last, microbatch}, {step, rank, first_rank}});
        }
      }
    }
  }

  struct Outcome {
    bool some_finish = false;
    bool some_stick = false;
  };

  Outcome explore() const {
    Outcome outcome;
    std::set<State> seen;
    std::vector<State> open{State(events_.size(), 0)};
    while (!open.empty()) {
      const State state = open.back();
      open.pop_back();
      if (!seen.insert(state).second) continue;
      bool finished = true;
      bool moved = false;
      for (std::size_t rank = 0; rank < state.size(); ++rank) {
        if (state[rank] == events_[rank].size()) continue;
        finished = false;
        if (!possible(state, rank)) continue;
        moved = true;
        State next = state;
        ++next[rank];
        open.push_back(next);
      }
      if (finished) outcome.some_finish = true;
      if (!finished && !moved) outcome.some_stick = true;
    }
    return outcome;
  }

 private:
  using State = std::vector<std::size_t>;
  using Name = std::array<int, 3>;    // direction, stage it comes from, microbatch
  using Stream = std::array<int, 3>;  // direction, source, destination
  struct Event {
    enum Kind { receive, post, wait } kind;
    Name name;
    Stream stream;
  };

  bool possible(const State& state, std::size_t rank) const {
    const Event& event = events_[rank][state[rank]];
    if (event.kind == Event::post) return true;
    if (event.kind == Event::receive) return send_posted(state, event);
    // all but the last `sends` of those posted so far must have completed
    std::vector<Event> posted;
    for (std::size_t k = 0; k < state[rank]; ++k) {
      const Event& other = events_[rank][k];
      if (other.kind == Event::post && other.stream == event.stream) posted.push_back(other);
    }
    const auto old = static_cast<int>(posted.size()) - depth_.sends;
    for (int k = 0; k < old; ++k) {
      if (!receive_posted(state, posted[static_cast<std::size_t>(k)])) return false;
    }
    return true;
  }

  bool send_posted(const State& state, const Event& event) const {
    const auto source = static_cast<std::size_t>(event.stream[1]);
    for (std::size_t k = 0; k < state[source]; ++k) {
      const Event& other = events_[source][k];
      if (other.kind == Event::post && other.name == event.name) return true;
    }
    return false;
  }

  bool receive_posted(const State& state, const Event& event) const {
    const auto destination = static_cast<std::size_t>(event.stream[2]);
    int ahead = 0;  // receives of this stream that are not done, before this one
    for (std::size_t k = 0; k < events_[destination].size(); ++k) {
      const Event& other = events_[destination][k];
      if (other.kind != Event::receive || other.stream != event.stream) continue;
      if (other.name == event.name) return k <= state[destination] || ahead < depth_.receives;
      if (k >= state[destination]) ++ahead;
    }
    return false;
  }

  Depth depth_;
  std::vector<std::vector<Event>> events_;
};

// Whether the verifier agrees; says also what it decided.
bool agree(const Candidate& c, Depth depth, std::map<Fault, int>& tally) {
  const Fault fault = verify(c.table(), depth).fault;
  ++tally[fault];
  if (!lists_are_valid(c)) return fault != Fault::none && fault != Fault::deadlock;
  const Interleavings::Outcome outcome = Interleavings(c, depth).explore();
  // all interleavings end alike
  if (outcome.some_finish == outcome.some_stick) return false;
  return fault == (outcome.some_finish ? Fault::none : Fault::deadlock);
}

// A random order that each rank alone could work: repeatedly any computation whose predecessors on this rank are done.
Candidate random_candidate(std::mt19937& random) {
  const auto up_to = [&](int most) { return static_cast<int>(random() % static_cast<unsigned>(most)) + 1; };
  Candidate c;
  c.shape = {up_to(3), up_to(3), up_to(2)};
  c.stages.resize(static_cast<std::size_t>(c.shape.stages()));
  for (std::size_t slot = 0; slot < c.stages.size(); ++slot) c.stages[slot] = static_cast<int>(slot);
  std::shuffle(c.stages.begin(), c.stages.end(), random);
  const bool wild = random() % 2 == 0;  // otherwise microbatches stay in order
  for (int rank = 0; rank < c.shape.ranks; ++rank) {
    List todo;
    for (int m = 0; m < c.shape.microbatches; ++m) {
      for (int chunk = 0; chunk < c.shape.chunks; ++chunk) {
        todo.push_back({ActionKind::forward, m, chunk});
        if (random() % 2 == 0) {
          todo.push_back({ActionKind::backward, m, chunk});
        } else {
          todo.push_back({ActionKind::backward_input, m, chunk});
          todo.push_back({ActionKind::backward_weight, m, chunk});
        }
      }
    }
    const auto stage = [&](const Action& a) {
      return c.stages[static_cast<std::size_t>(rank * c.shape.chunks + a.chunk)];
    };
    const auto must_precede = [&](const Action& a, const Action& b) {
      if (a == b) return false;
      const auto phase = [](const Action& x) {
        return x.kind == ActionKind::forward ? 0 : x.kind == ActionKind::backward_weight ? 2 : 1;
      };
      if (!wild && a.chunk == b.chunk && phase(a) == phase(b) && a.microbatch < b.microbatch) return true;
      if (a.microbatch != b.microbatch) return false;
      if (a.chunk == b.chunk) return phase(a) < phase(b);
      if (phase(a) == 0 && phase(b) == 0) return stage(a) < stage(b);
      return phase(a) == 1 && phase(b) == 1 && stage(a) > stage(b);
    };
    List& list = c.lists.emplace_back();
    while (!todo.empty()) {
      List ready;
      for (const Action& b : todo) {
        if (std::none_of(todo.begin(), todo.end(), [&](const Action& a) { return must_precede(a, b); })) {
          ready.push_back(b);
        }
      }
      const Action chosen = ready[random() % ready.size()];
      list.push_back(chosen);
      todo.erase(std::find(todo.begin(), todo.end(), chosen));
    }
  }
  return c;
}

}  // namespace

TEST_CASE("every small known schedule at every depth") {
  std::map<Fault, int> tally;
  for (int p = 1; p <= 3; ++p) {
    for (int m = 1; m <= 3; ++m) {
      for (const Table& table : {make_table<kerkis::GPipe>({p, m}), make_table<kerkis::OneForwardOneBackward>({p, m}),
                                 make_table<user::OneByOne>({p, m}), make_table<user::ZeroBubble<2, 2>>({p, m}),
                                 make_table<user::GPipeV>({p, m}), make_table<user::BreadthFirst>({p, m, 2})}) {
        for (int receives = 0; receives <= 2; ++receives) {
          for (int sends = 0; sends <= 2; ++sends) CHECK(agree(candidate(table), {receives, sends}, tally));
        }
      }
    }
  }
  CHECK(tally[Fault::none] > 100);
  CHECK(tally[Fault::deadlock] > 10);
}

TEST_CASE("every schedule of the library, small") {
  std::map<Fault, int> tally;
  for (const PipelineShape shape : {PipelineShape{1, 2}, {2, 1}, {2, 2}, {2, 3}, {3, 1}, {3, 2}}) {
    const Table looped = make_table<kerkis::ForwardOnly>({shape.ranks, shape.microbatches, 2});
    std::vector<Candidate> all{candidate(looped)};
    for (int feedback = 1; feedback <= 3; ++feedback) {
      all.push_back(candidate(forward_only(looped, 2 * shape.microbatches, feedback)));
      all.push_back(candidate(forward_only(make_table<kerkis::ZeroBubbleV>(shape), shape.microbatches, feedback)));
    }
    for (const std::string_view name : Known::names) {
      const int chunks = name == "interleaved" || name == "bfs" ? 2 : 1;
      all.push_back(candidate(make_table(name, {shape.ranks, shape.microbatches, chunks})));
    }
    for (const Candidate& c : all) {
      for (const Depth depth : {Depth{0, 0}, Depth{1, 0}, Depth{0, 1}}) CHECK(agree(c, depth, tally));
    }
  }
  CHECK(tally[Fault::none] > 100);
  CHECK(tally[Fault::deadlock] > 10);
}

TEST_CASE("random orders: neither too strict nor too lax") {
  std::mt19937 random(20240229);
  std::map<Fault, int> tally;
  for (int trial = 0; trial < 600; ++trial) {
    CAPTURE(trial);
    const Candidate c = random_candidate(random);
    const Depth depth{static_cast<int>(random() % 3), static_cast<int>(random() % 3)};
    CHECK(agree(c, depth, tally));
  }
  CHECK(tally[Fault::none] > 100);
  CHECK(tally[Fault::deadlock] > 100);
}

TEST_CASE("mutations of sound tables") {
  std::mt19937 random(19811965);
  std::map<Fault, int> tally;
  const std::vector<Candidate> sound{candidate(make_table<kerkis::GPipe>({3, 3})),
                                     candidate(make_table<kerkis::OneForwardOneBackward>({3, 3})),
                                     candidate(make_table<user::ZeroBubble<1, 1>>({2, 4})),
                                     candidate(make_table<user::GPipeV>({2, 2})),
                                     candidate(make_table<kerkis::ZeroBubbleV>({2, 2})),
                                     candidate(make_table<kerkis::ZeroBubbleVMin>({2, 2})),
                                     candidate(make_table<kerkis::DualPipeV>({2, 2})),
                                     candidate(make_table<kerkis::Interleaved<2>>({2, 2})),
                                     candidate(make_table<kerkis::ForwardOnly>({3, 2, 2})),
                                     candidate(forward_only(make_table<kerkis::GPipe>({3, 1}), 4, 2)),
                                     candidate(forward_only(make_table<kerkis::ZeroBubbleV>({2, 1}), 4, 1)),
                                     candidate(forward_only(make_table<kerkis::BreadthFirst<2>>({2, 1}), 4, 3))};
  for (int trial = 0; trial < 2000; ++trial) {
    CAPTURE(trial);
    Candidate c = sound[random() % sound.size()];
    for (auto k = random() % 3 + 1; k > 0; --k) mutate(c, random);
    CHECK(agree(c, {static_cast<int>(random() % 2), static_cast<int>(random() % 2)}, tally));
  }
  for (const Fault fault :
       {Fault::none, Fault::bad_action, Fault::doubled, Fault::missing, Fault::misordered, Fault::deadlock}) {
    CAPTURE(to_string(fault));
    CHECK(tally[fault] >= 10);
  }
}

TEST_CASE("the least depth is the least") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    CAPTURE(trial);
    const Candidate c = random_candidate(random);
    const std::optional<Depth> found = least_depth(c.table());
    std::optional<Depth> expected;
    const int most = c.shape.microbatches * c.shape.chunks;
    for (int sum = 0; sum <= 2 * most && !expected; ++sum) {
      for (int sends = 0; sends <= sum && !expected; ++sends) {
        if (Interleavings(c, {sum - sends, sends}).explore().some_finish) expected = Depth{sum - sends, sends};
      }
    }
    CHECK(found == expected);
  }
}
