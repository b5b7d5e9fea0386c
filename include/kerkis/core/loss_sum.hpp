// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kerkis/core/macros.hpp>

namespace kerkis {

/// A loss as a pair. Pairs are added over microbatches and ranks; one division follows, at the very end, so that uneven
/// shares are right without a flag.
struct LossSum {
  double sum = 0;     ///< over tokens
  double weight = 0;  ///< the number of tokens

  KERKIS_FUNCTION constexpr LossSum& operator+=(const LossSum& other) {
    sum += other.sum;
    weight += other.weight;
    return *this;
  }
  KERKIS_FUNCTION friend constexpr LossSum operator+(LossSum a, const LossSum& b) { return a += b; }
};

}  // namespace kerkis
