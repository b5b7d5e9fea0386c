// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include <kerkis/schedule/table.hpp>
#include <kerkis/schedule/verifier.hpp>

namespace kerkis::schedule {

/// One trial at compile time. Each is a constant expression of its own, so that the compilers' limits on the work of
/// one (clang: about a million steps) hold for tables of up to 1,024 computations.
template <Schedule S, PipelineShape shape, Depth depth>
inline constexpr Fault fault_at = verify(make_table<S>(shape), depth).fault;

/// Whether a table is small enough to be checked at compile time within the default limits: at most 1,024 computations,
/// counting a forward and a backward for each microbatch and stage.
template <Schedule S, int ranks, int microbatches>
inline constexpr bool small = 2LL * shape_for<S>({ranks, microbatches}).stages() * microbatches <= 1024;

namespace detail {

template <Schedule S, PipelineShape shape>
consteval Fault fault_of() {
  if constexpr (!refusal<S>(shape).empty()) {
    return Fault::refused;
  } else {
    return fault_at<S, shape, unbounded>;
  }
}

template <Schedule S, PipelineShape shape, int sum, int sends>
consteval Depth search() {
  if constexpr (fault_at<S, shape, Depth{sum - sends, sends}> == Fault::none) {
    return {sum - sends, sends};
  } else if constexpr (sends < sum) {
    return search<S, shape, sum, sends + 1>();
  } else {
    return search<S, shape, sum + 1, 0>();
  }
}

}  // namespace detail

/// Fault::none if the schedule is right at some depth; otherwise what is wrong at any.
template <Schedule S, int ranks, int microbatches>
inline constexpr Fault static_fault = detail::fault_of<S, PipelineShape{ranks, microbatches}>();

/// For static_assert: the schedule is complete, ordered and free from deadlock.
template <Schedule S, int ranks, int microbatches>
inline constexpr bool proven = static_fault<S, ranks, microbatches> == Fault::none;

/// `least_depth` at compile time.
template <Schedule S, int ranks, int microbatches>
  requires proven<S, ranks, microbatches>
inline constexpr Depth static_depth = detail::search<S, PipelineShape{ranks, microbatches}, 0, 0>();

/// What is wrong with a static schedule as a type, for the compiler's output to show.
template <int rank, int peer>
struct waits_for {};
/// Ranks that wait for each other in a circle, at any depth: deadlock<waits_for<1, 2>, waits_for<2, 1>>.
template <class... Waits>
struct deadlock {};

/// A text as a template argument.
template <std::size_t size>
struct Words {
  char text[size + 1] = {};  ///< with a zero behind it

  /// Of `size` bytes.
  constexpr explicit Words(std::string_view words) { std::copy(words.begin(), words.end(), text); }
};
/// The schedule's own reason.
template <Words reason>
struct refused {};

namespace detail {

template <std::size_t ranks>
struct Cycle {
  std::size_t size = 0;
  int rank[ranks] = {};
  int peer[ranks] = {};
};

template <Schedule S, int ranks, int microbatches>
consteval auto find_cycle() {
  Cycle<static_cast<std::size_t>(ranks)> cycle;
  for (const Wait& wait : verify(make_table<S>({ranks, microbatches}), unbounded).cycle) {
    cycle.rank[cycle.size] = wait.rank;
    cycle.peer[cycle.size++] = wait.peer;
  }
  return cycle;
}

template <Schedule S, int ranks, int microbatches>
inline constexpr auto cycle_of = find_cycle<S, ranks, microbatches>();

template <Schedule S, int ranks, int microbatches, std::size_t... k>
deadlock<waits_for<cycle_of<S, ranks, microbatches>.rank[k], cycle_of<S, ranks, microbatches>.peer[k]>...>
    deadlock_of(std::index_sequence<k...>);

template <Schedule S, int ranks, int microbatches>
inline constexpr std::string_view reason_of = refusal<S>({ranks, microbatches});

}  // namespace detail

/// `deadlock<...>` of a schedule whose static_fault is one. The circle begins where the verifier found it.
template <Schedule S, int ranks, int microbatches>
using static_deadlock = decltype(detail::deadlock_of<S, ranks, microbatches>(
    std::make_index_sequence<detail::cycle_of<S, ranks, microbatches>.size>{}));

/// `refused<...>` of a schedule that can't do these numbers.
template <Schedule S, int ranks, int microbatches>
using static_refusal =
    refused<Words<detail::reason_of<S, ranks, microbatches>.size()>(detail::reason_of<S, ranks, microbatches>)>;

}  // namespace kerkis::schedule
