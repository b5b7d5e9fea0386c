// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>
#include <type_traits>

#include <kerkis/policy/axis.hpp>
#include <kerkis/policy/extent.hpp>
#include <kerkis/policy/options.hpp>
#include <kerkis/policy/recompute.hpp>
#include <kerkis/schedule/one_forward_one_backward.hpp>
#include <kerkis/schedule/proven.hpp>

namespace kerkis {

/// Into how many parts a data replica's samples of one step are cut.
template <std::size_t M>
struct Microbatches {
  static_assert(M != 0, "kerkis: Microbatches<0>: a step needs at least one microbatch");
  static constexpr std::size_t count = M;  ///< per data replica and step
};

/// In place of a schedule: which one it is is said when the model is built (PipelineOptions::schedule), as a program
/// does that takes it from its command line.
struct DynamicSchedule {
  static constexpr std::string_view name = "dynamic";
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
template <>
struct is_schedule<DynamicSchedule> : std::true_type {};
struct OpenRecompute {};
template <class Option>
struct is_recompute : std::false_type {};
template <class What>
struct is_recompute<Recompute<What>> : std::true_type {};

/// What is wrong with a schedule on so many ranks and microbatches, as far as it is known when it is compiled: extents
/// known at run time only, and tables of more than 1,024 computations, are proven when the table is built.
template <class Schedule, std::size_t ranks, std::size_t microbatches>
constexpr schedule::Fault static_fault() {
  if constexpr (ranks == dynamic || microbatches == dynamic || ranks == 0 ||
                std::is_same_v<Schedule, DynamicSchedule>) {
    return schedule::Fault::none;
  } else {
    constexpr int p = static_cast<int>(ranks), m = static_cast<int>(microbatches);
    if constexpr (!schedule::refusal<Schedule>({p, m}).empty()) return schedule::Fault::refused;
    if constexpr (schedule::small<Schedule, p, m>) return schedule::static_fault<Schedule, p, m>;
    return schedule::Fault::none;
  }
}

/// Instantiated for a schedule that deadlocks or refuses the numbers, so that the compiler shows why in its argument.
template <class Cycle>
struct Deadlocks {
  static_assert(sizeof(Cycle) == 0, "kerkis: the schedule of this Pipeline deadlocks: these ranks wait for each other");
};
template <class Reason>
struct Refuses {
  static_assert(sizeof(Reason) == 0, "kerkis: the schedule of this Pipeline can't do these numbers of ranks and "
                                     "microbatches, for this reason");
};
template <class Schedule, std::size_t ranks, std::size_t microbatches, schedule::Fault fault>
constexpr bool possible() {
  constexpr int p = static_cast<int>(ranks), m = static_cast<int>(microbatches);
  if constexpr (fault == schedule::Fault::deadlock)
    return sizeof(Deadlocks<schedule::static_deadlock<Schedule, p, m>>) != 0;
  if constexpr (fault == schedule::Fault::refused)
    return sizeof(Refuses<schedule::static_refusal<Schedule, p, m>>) != 0;
  return true;
}
}  // namespace policy

/// The layers are spread over the ranks of the axis in stages, and microbatches flow through them: Huang et al. 2019,
/// "GPipe", arXiv:1811.06965. Options: a schedule (OneForwardOneBackward if none is given; see kerkis/schedule, or a
/// type of your own with an `order` function; DynamicSchedule leaves the choice to the run), Microbatches<M> and
/// Recompute<...> (the run's choice if not given). A plan whose numbers are static and small is proven free of deadlock
/// when it is compiled, others when the schedule's table is built.
template <std::size_t N = dynamic, class... Options>
struct Pipeline {
  static_assert(N != 0, "kerkis: Pipeline<0>: an axis needs at least one rank");
  static_assert(
      (... && (policy::is_schedule<Options>::value || policy::is_microbatches<Options>::value ||
               policy::is_recompute<Options>::value)),
      "kerkis: Pipeline takes the options Microbatches<M>, Recompute<...> and a schedule; one of those given is "
      "none of them (a schedule has a name and an order function)");
  static_assert(policy::count_options<policy::is_schedule, Options...> <= 1, "kerkis: Pipeline has two schedules");
  static_assert(policy::count_options<policy::is_microbatches, Options...> <= 1,
                "kerkis: Pipeline has the option Microbatches twice");
  static_assert(policy::count_options<policy::is_recompute, Options...> <= 1,
                "kerkis: Pipeline has the option Recompute twice");

  using axis = kerkis::axis::Pipeline;
  /// Its type; DynamicSchedule if the run chooses.
  using schedule = typename policy::find_option<policy::is_schedule, OneForwardOneBackward, Options...>::type;
  static constexpr std::size_t extent = N;  ///< ranks, or `dynamic`
  /// Per data replica and step, or `dynamic`.
  static constexpr std::size_t microbatches =
      policy::find_option<policy::is_microbatches, policy::OpenMicrobatches, Options...>::type::count;
  /// The option Recompute, or a mark that the run chooses.
  using recompute = typename policy::find_option<policy::is_recompute, policy::OpenRecompute, Options...>::type;

  /// What is wrong with the schedule, as far as the compiler can say: nothing, or the plan does not compile.
  static constexpr kerkis::schedule::Fault fault = policy::static_fault<schedule, N, microbatches>();
  static_assert(policy::possible<schedule, N, microbatches, fault>());
  static_assert(fault != kerkis::schedule::Fault::missing,
                "kerkis: the schedule of this Pipeline leaves a computation out");
  static_assert(fault != kerkis::schedule::Fault::doubled,
                "kerkis: the schedule of this Pipeline has a computation twice");
  static_assert(fault != kerkis::schedule::Fault::misordered,
                "kerkis: the schedule of this Pipeline has a computation before one that it needs");
  static_assert(fault != kerkis::schedule::Fault::bad_action && fault != kerkis::schedule::Fault::bad_shape,
                "kerkis: the schedule of this Pipeline names a microbatch, chunk or stage that does not exist");
};

}  // namespace kerkis
