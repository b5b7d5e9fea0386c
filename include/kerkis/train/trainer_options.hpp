// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include <kerkis/core/error.hpp>
#include <kerkis/comm/require_same.hpp>

namespace kerkis {

/// Of Trainer. The same on every rank.
struct TrainerOptions {
  int microbatches = 0;    ///< per data replica, if the plan leaves them open; 0: one per pipeline rank
  double clip = 0;         ///< gradients are scaled by min(1, clip / norm); 0: never
  std::uint64_t seed = 1;  ///< of initial weights and dropout
  std::function<double(std::int64_t step)> schedule = {};  ///< a factor on the optimizer's learning rate; none: 1
  /// No pipeline rank waits for the gradients of the others before it takes its step and begins the next one (see
  /// Trainer). Nothing changes where the pipeline has one rank.
  bool post_validation = false;
};

namespace detail {

/// Calls f(name, value) with the optimizer's options: all that it names, or the one that every optimizer has.
template <class Optimizer, class F>
void for_each_option(const Optimizer& optimizer, F&& f) {
  if constexpr (requires { optimizer.for_each_option(f); })
    optimizer.for_each_option(f);
  else
    f("learning_rate", optimizer.learning_rate);
}

/// `options`, after a look at all ranks and at the optimizer. Throws InputError on every rank.
template <class Optimizer>
TrainerOptions checked(const Communicator& world, const Optimizer& optimizer, TrainerOptions options) {
  std::vector<Same> same{{"microbatches", message(options.microbatches)},
                         {"clip", message(options.clip)},
                         {"seed", message(options.seed)},
                         {"whether there is a schedule", message(options.schedule != nullptr)},
                         {"post_validation", message(options.post_validation)}};
  for_each_option(optimizer, [&](std::string_view name, double value) {
    same.push_back({message("the optimizer's ", name), message(value)});
  });
  require_same(world, "trainer", same);
  for_each_option(optimizer, [](std::string_view name, double value) {
    require(std::isfinite(value), "trainer: the optimizer's ", name, " is ", value);
  });
  require(optimizer.learning_rate >= 0, "trainer: the optimizer's learning_rate is ", optimizer.learning_rate,
          "; 0 is the least");
  return options;
}

}  // namespace detail
}  // namespace kerkis
