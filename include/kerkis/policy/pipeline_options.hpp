// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string_view>
#include <type_traits>

#include <kerkis/core/layer_costs.hpp>
#include <kerkis/policy/hybrid.hpp>
#include <kerkis/policy/pipeline.hpp>
#include <kerkis/schedule/chosen.hpp>

namespace kerkis {

/// What the plan's Pipeline leaves to the run, and how the layers are spread. The same on every rank.
struct PipelineOptions {
  std::optional<schedule::Chosen> schedule = {};  ///< where the plan says DynamicSchedule
  int chunks = 1;                                 ///< per rank, where the schedule leaves them open
  std::optional<Recomputation> recompute = {};    ///< nothing unless given here or in the plan
  LayerCosts costs = {};                          ///< of the model's layers, see `layers_to_stages`
};

namespace policy {

/// The schedule under `Plan`: its own, the one of `options` if it leaves the choice to the run, and any if it has no
/// pipeline. Throws InputError if the choice is made twice or not at all.
template <class Plan>
schedule::Chosen chosen_schedule(const PipelineOptions& options) {
  using Policy = typename plan_traits<Plan>::template on<axis::Pipeline>;
  if constexpr (std::is_void_v<Policy>) {
    require(!options.schedule, "the plan has no pipeline for the schedule ",
            options.schedule ? options.schedule->name() : "");
    return schedule::Chosen::of<OneForwardOneBackward>();
  } else if constexpr (std::is_same_v<typename Policy::schedule, DynamicSchedule>) {
    require(options.schedule.has_value(), "the plan leaves its schedule open: one must be chosen in PipelineOptions");
    return *options.schedule;
  } else {
    require(!options.schedule, "the schedule ", options.schedule ? options.schedule->name() : "",
            " is chosen, but the plan says ", std::string_view(Policy::schedule::name));
    return schedule::Chosen::of<typename Policy::schedule>();
  }
}

/// What is recomputed under `Plan`. Throws InputError if `options` say something else than it.
template <class Plan>
Recomputation recomputation(const PipelineOptions& options) {
  using Policy = typename plan_traits<Plan>::template on<axis::Pipeline>;
  const Recomputation chosen = options.recompute.value_or(Recomputation::none());
  require(chosen.segment >= 0, "recompute: segments of ", chosen.segment, " layers");
  if constexpr (std::is_void_v<Policy>) {
    return chosen;
  } else if constexpr (std::is_same_v<typename Policy::recompute, OpenRecompute>) {
    return chosen;
  } else {
    constexpr Recomputation fixed = Policy::recompute::value;
    require(!options.recompute || chosen == fixed, "recompute: segments of ", chosen.segment,
            " layers are chosen, but the plan says ", fixed.segment);
    return fixed;
  }
}

}  // namespace policy
}  // namespace kerkis
