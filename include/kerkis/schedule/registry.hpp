// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <kerkis/core/error.hpp>
#include <kerkis/schedule/breadth_first.hpp>
#include <kerkis/schedule/dual_pipe_v.hpp>
#include <kerkis/schedule/gpipe.hpp>
#include <kerkis/schedule/interleaved.hpp>
#include <kerkis/schedule/one_forward_one_backward.hpp>
#include <kerkis/schedule/table.hpp>
#include <kerkis/schedule/zero_bubble_h1.hpp>
#include <kerkis/schedule/zero_bubble_h2.hpp>
#include <kerkis/schedule/zero_bubble_v.hpp>
#include <kerkis/schedule/zero_bubble_v_half.hpp>
#include <kerkis/schedule/zero_bubble_v_min.hpp>

namespace kerkis::schedule {

/// Types of schedules, to be chosen from by name.
template <Schedule... S>
struct Schedules {
  static constexpr std::array<std::string_view, sizeof...(S)> names{S::name...};  ///< in their order

  /// Calls `f.operator()<Type>()` for the schedule of that name. Throws InputError with all names if there is none.
  template <class F>
  static constexpr void visit(std::string_view name, F&& f) {
    if ((... || (name == S::name && (f.template operator()<S>(), true)))) return;
    std::string all;
    for (const std::string_view known : names) all.append(all.empty() ? "" : ", ").append(known);
    throw InputError(message("no schedule is called ", name, "; there are ", all));
  }
};

/// All schedules of training whose order depends on the shape alone.
using Known = Schedules<GPipe, OneForwardOneBackward, Interleaved<>, BreadthFirst<>, ZeroBubbleH1, ZeroBubbleH2,
                        ZeroBubbleV, ZeroBubbleVHalf, ZeroBubbleVMin, DualPipeV>;

/// The most (microbatch, stage)s of a table that is made for a shape known at run time only.
inline constexpr long long largest_table = 1LL << 24;

/// The table of a schedule by name (see Known::names), for numbers that a user gave. A schedule that fixes its chunks
/// per rank has them whatever the shape says, if that is 1. Throws InputError: no such name; an extent below 1, or all
/// of them together too large; numbers that the schedule refuses.
[[nodiscard]] inline Table make_table(std::string_view name, PipelineShape shape) {
  std::optional<Table> table;
  Known::visit(name, [&]<class S>() {
    const PipelineShape its = checked_shape<S>(shape);
    require(its.ranks <= largest_table / its.chunks / its.microbatches, "a table of ", its.ranks, " ranks, ",
            its.microbatches, " microbatches and ", its.chunks, " chunks per rank is larger than ", largest_table);
    table = make_table<S>(its);
  });
  return *std::move(table);
}

}  // namespace kerkis::schedule
