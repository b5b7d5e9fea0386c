// SPDX-License-Identifier: Apache-2.0
#pragma once

// The steps of random programs, what each rank puts in, and how a rank departs from them.

#include <kerkis/comm/reduction.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace random_programs {

using kerkis::Reduction;
using Random = std::mt19937;

inline int below(Random& random, int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); }
inline bool one_in(Random& random, int n) { return below(random, n) == 0; }

/// Persistent operations, collectives and hand-offs; the first three are persistent, all from the second to `barrier`
/// collectives.
enum class Kind {
  repeated_ring,
  repeated_all_reduce,
  repeated_broadcast,
  all_reduce,
  reduce,
  scan,
  exclusive_scan,
  all_gather,
  gather,
  scatter,
  reduce_scatter,
  all_to_all,
  broadcast,
  barrier,
  shift,
  exchange,
  ring
};
constexpr int kinds = 17, collectives = 13;

inline bool is_collective(Kind kind) { return kind >= Kind::repeated_all_reduce && kind <= Kind::barrier; }
inline bool is_repeated(Kind kind) { return kind < Kind::all_reduce; }
inline bool has_root(Kind kind) {
  return kind == Kind::reduce || kind == Kind::gather || kind == Kind::scatter || kind == Kind::broadcast;
}
inline bool reduces(Kind kind) {
  return (kind >= Kind::all_reduce && kind <= Kind::exclusive_scan) || kind == Kind::reduce_scatter;
}
/// One of the collectives, which come round.
inline Kind collective_number(unsigned i) { return static_cast<Kind>(i % collectives + 1); }

/// What the library calls it.
inline std::string_view name_of(Kind kind) {
  static constexpr std::array<std::string_view, kinds> names{
      "rounds",     "all_reduce", "broadcast", "all_reduce",     "reduce",     "scan",      "exclusive_scan",
      "all_gather", "gather",     "scatter",   "reduce_scatter", "all_to_all", "broadcast", "barrier",
      "shift",      "exchange",   "ring"};
  return names[static_cast<std::size_t>(kind)];
}

/// What all ranks of a communicator do. What a kind has no use for is ignored.
struct Step {
  Kind kind;
  int communicator;   // 0: the world, 1: ranks of equal parity, 2: all in reverse
  std::size_t count;  // elements of a rank, or of a block
  int root;           // modulo the size
  int tag;
  Reduction reduction;
  bool real;  // double elements, else int
  bool strided, in_place, reproducible;
  bool uneven;  // of hand-offs: another choice
};

inline Step random_step(Random& random, std::size_t most) {
  constexpr std::array reductions{Reduction::sum, Reduction::minimum, Reduction::maximum};
  const auto yes = [&] { return one_in(random, 2); };
  return {.kind = static_cast<Kind>(below(random, kinds)),
          .communicator = below(random, 3),
          .count = one_in(random, 6) ? most : static_cast<std::size_t>(below(random, 40)),
          .root = below(random, 12),
          .tag = below(random, 3),
          .reduction = reductions[static_cast<std::size_t>(below(random, 3))],
          .real = yes(),
          .strided = yes(),
          .in_place = yes(),
          .reproducible = yes(),
          .uneven = yes()};
}

inline std::vector<Step> random_steps(Random& random, int n, std::size_t most) {
  std::vector<Step> steps;
  for (int i = 0; i < n; ++i) steps.push_back(random_step(random, most));
  return steps;
}

/// Element i of what rank `rank` of the world puts into step `step`.
inline int value(unsigned seed, std::size_t step, int rank, std::size_t i) {
  const std::uint32_t mixed = (seed * 31u + static_cast<unsigned>(step) * 7919u +
                               static_cast<unsigned>(rank) * 104'729u + static_cast<unsigned>(i)) *
                              2'654'435'761u;
  return static_cast<int>(mixed >> 16) - 30'000;
}

/// The size of uneven block k of a step; another for the next `count`.
inline std::size_t uneven_size(std::size_t count, std::size_t k) { return (count + 5 * k) % 31; }

/// Changes what the ranks compare of a collective, the step at `place`; says what. False: it can't be changed so.
inline bool change(std::vector<Step>& steps, std::size_t place, std::string_view what, Random& random, int ranks) {
  Step& step = steps[place];
  const bool has_elements = step.kind != Kind::barrier && !is_repeated(step.kind);
  if (what == "operation") {
    const auto before = name_of(step.kind);
    while (name_of(step.kind) == before || is_repeated(step.kind))
      step.kind = collective_number(static_cast<unsigned>(random()));
    return true;
  }
  if (what == "order") {
    const auto next =
        std::find_if(steps.begin() + static_cast<std::ptrdiff_t>(place) + 1, steps.end(), [&](const Step& other) {
          return other.communicator == step.communicator && is_collective(other.kind);
        });
    if (next == steps.end() || name_of(next->kind) == name_of(step.kind)) return false;
    std::swap(*next, step);
    return true;
  }
  if (what == "count" && has_elements) return ++step.count, true;
  if (what == "type" && has_elements) return step.real = !step.real, true;
  if (what == "blocks" && step.kind == Kind::all_to_all) return step.uneven = !step.uneven, true;
  if (what == "root" && has_root(step.kind)) return step.root = (step.root % ranks + 1) % ranks, true;
  if (what == "reduction" && reduces(step.kind)) {
    step.reduction = step.reduction == Reduction::sum ? Reduction::minimum : Reduction::sum;
    return true;
  }
  if (what == "shards" && reduces(step.kind) && step.kind != Kind::scan && step.kind != Kind::exclusive_scan)
    return step.reproducible = !step.reproducible, true;
  return false;
}

/// Makes one of the changes; says which.
inline std::string_view mutate(std::vector<Step>& steps, std::size_t place, Random& random, int ranks) {
  constexpr std::array<std::string_view, 8> changes{"operation", "order", "count",     "type",
                                                    "blocks",    "root",  "reduction", "shards"};
  for (;;) {
    const auto what = changes[static_cast<std::size_t>(below(random, static_cast<int>(changes.size())))];
    if (change(steps, place, what, random, ranks)) return what;
  }
}

}  // namespace random_programs
