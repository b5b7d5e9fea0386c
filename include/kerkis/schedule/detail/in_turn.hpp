// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kerkis/schedule/action.hpp>

namespace kerkis::schedule::detail {

/// Appends computations to a list, of each kind and chunk (0 or 1) the next microbatch. A regular order needs a least
/// number of microbatches: it is spelt out for that many, and those that are absent are left out here. That keeps an
/// order sound, since every dependency is between computations of one microbatch.
class InTurn {
 public:
  constexpr InTurn(ActionList& list, int microbatches) : list_(list), microbatches_(microbatches) {}

  constexpr void forward(int chunk) { put(ActionKind::forward, chunk, forward_[chunk]); }
  /// Both halves as one block. The next backward_weight is of the microbatch after the last that had either.
  constexpr void backward(int chunk) {
    put(ActionKind::backward, chunk, input_[chunk]);
    ++weight_[chunk];
  }
  constexpr void backward_input(int chunk) { put(ActionKind::backward_input, chunk, input_[chunk]); }
  constexpr void backward_weight(int chunk) { put(ActionKind::backward_weight, chunk, weight_[chunk]); }

  /// How many of a chunk are behind, absent ones included.
  [[nodiscard]] constexpr int forwards(int chunk) const { return forward_[chunk]; }
  [[nodiscard]] constexpr int inputs(int chunk) const { return input_[chunk]; }
  [[nodiscard]] constexpr int weights(int chunk) const { return weight_[chunk]; }

 private:
  constexpr void put(ActionKind kind, int chunk, int& next) {
    if (next < microbatches_) list_.append({kind, next, chunk});
    ++next;
  }

  ActionList& list_;
  int microbatches_;
  int forward_[2] = {};
  int input_[2] = {};
  int weight_[2] = {};
};

}  // namespace kerkis::schedule::detail
