// SPDX-License-Identifier: Apache-2.0
#pragma once

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

/// Fault::none if the schedule is right at some depth; otherwise what is wrong at any.
template <Schedule S, int ranks, int microbatches>
inline constexpr Fault static_fault = fault_at<S, PipelineShape{ranks, microbatches}, unbounded>;

/// For static_assert: the schedule is complete, ordered and free from deadlock.
template <Schedule S, int ranks, int microbatches>
inline constexpr bool proven = static_fault<S, ranks, microbatches> == Fault::none;

namespace detail {

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

/// `least_depth` at compile time.
template <Schedule S, int ranks, int microbatches>
  requires proven<S, ranks, microbatches>
inline constexpr Depth static_depth = detail::search<S, PipelineShape{ranks, microbatches}, 0, 0>();

}  // namespace kerkis::schedule
