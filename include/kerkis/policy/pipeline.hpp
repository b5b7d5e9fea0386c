// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kerkis/policy/axis.hpp>
#include <kerkis/policy/extent.hpp>
#include <kerkis/policy/options.hpp>
#include <kerkis/schedule/one_forward_one_backward.hpp>
#include <kerkis/schedule/proven.hpp>

namespace kerkis {

/// Into how many parts a data replica's samples of one step are cut.
template <std::size_t M>
struct Microbatches {
  static_assert(M != 0, "kerkis: Microbatches<0>: a step needs at least one microbatch");
  static constexpr std::size_t count = M;
};

namespace policy {
struct OpenMicrobatches {
  static constexpr std::size_t count = dynamic;
};
template <class Option>
struct is_microbatches : std::false_type {};
template <std::size_t M>
struct is_microbatches<Microbatches<M>> : std::true_type {};
template <class Option>
struct is_schedule : std::bool_constant<schedule::Schedule<Option>> {};

/// Whether a schedule may run on so many ranks and microbatches; extents known at run time only are proven when the table is built.
template <class Schedule, std::size_t ranks, std::size_t microbatches>
constexpr bool may_run() {
  if constexpr (ranks == dynamic || microbatches == dynamic || ranks == 0) {
    return true;
  } else if constexpr (schedule::small<Schedule, static_cast<int>(ranks), static_cast<int>(microbatches)>) {
    return schedule::proven<Schedule, static_cast<int>(ranks), static_cast<int>(microbatches)>;
  } else {
    return true;
  }
}
}  // namespace policy

/// The layers are spread over the ranks of the axis in stages, and microbatches flow through them: Huang et al. 2019, "GPipe",
/// arXiv:1811.06965. Options: a schedule (OneForwardOneBackward if none is given, GPipe, or a type of your own with an `order`
/// function) and Microbatches<M> (the run's choice if not given). A plan whose numbers are static and small is proven free of
/// deadlock when it is compiled, others when the schedule's table is built.
template <std::size_t N = dynamic, class... Options>
struct Pipeline {
  static_assert(N != 0, "kerkis: Pipeline<0>: an axis needs at least one rank");
  static_assert((... && (policy::is_schedule<Options>::value || policy::is_microbatches<Options>::value)),
                "kerkis: Pipeline takes the options Microbatches<M> and a schedule; one of those given is neither (a schedule has a name and an order function)");
  static_assert(policy::count_options<policy::is_schedule, Options...> <= 1, "kerkis: Pipeline has two schedules");
  static_assert(policy::count_options<policy::is_microbatches, Options...> <= 1, "kerkis: Pipeline has the option Microbatches twice");

  using axis = kerkis::axis::Pipeline;
  using schedule = typename policy::find_option<policy::is_schedule, OneForwardOneBackward, Options...>::type;
  static constexpr std::size_t extent = N;
  static constexpr std::size_t microbatches = policy::find_option<policy::is_microbatches, policy::OpenMicrobatches, Options...>::type::count;

  static_assert(policy::may_run<schedule, N, microbatches>(), "kerkis: the schedule of this Pipeline is incomplete, out of order or deadlocks; schedule::static_fault tells which");
};

}  // namespace kerkis
