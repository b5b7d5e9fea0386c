// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace kerkis::optim {

/// A factor on the learning rate for each step: linear warm-up, then half a cosine down to `floor`, which it would
/// reach one step after the last (Loshchilov and Hutter 2017, arXiv:1608.03983, without restarts).
struct WarmupCosine {
  std::int64_t warmup = 0;  ///< steps
  std::int64_t steps = 1;   ///< of the whole run
  double floor = 0.1;       ///< the factor that it goes down to

  /// The factor of a step, counted from 0; `floor` behind the last.
  double operator()(std::int64_t step) const {
    if (step < warmup) return static_cast<double>(step + 1) / static_cast<double>(warmup);
    if (step >= steps) return floor;
    const double progress = static_cast<double>(step - warmup) / static_cast<double>(steps - warmup);
    return floor + (1 - floor) * 0.5 * (1 + std::cos(std::numbers::pi * progress));
  }
};

}  // namespace kerkis::optim
