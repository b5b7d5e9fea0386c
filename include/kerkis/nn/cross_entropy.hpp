// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

#include <kerkis/core/error.hpp>
#include <kerkis/device/cross_entropy.hpp>
#include <kerkis/module/context.hpp>
#include <kerkis/module/matrix.hpp>
#include <kerkis/tensor_parallel/sum_over.hpp>

namespace kerkis::nn {

/// Cross entropy in nats of softmax(logits) against int32 targets; negative targets are ignored. The vocabulary is
/// spread over the tensor axis as in Embedding and Head: `logits` has this rank's columns only, and one all_reduce of
/// (2 ranks + 1) numbers per row finishes loss and gradient. Sums and counts, not means; the same values on every rank
/// of the axis. Both calls fence.
template <class T, class Space = Kokkos::DefaultExecutionSpace>
class CrossEntropy {
 public:
  using Matrix = kerkis::Matrix<T, Space>;
  using Context = kerkis::Context<Space>;
  using Targets = Kokkos::View<const std::int32_t*, typename Space::memory_space>;  ///< one for each row

  /// `vocabulary`: of all ranks of `tensor`, over which it is spread.
  explicit CrossEntropy(std::int64_t vocabulary, Communicator tensor = {})
      : tensor_(std::move(tensor)), slice_(partition(vocabulary, tensor_.size(), tensor_.rank())) {}

  /// The loss alone; the logits stay.
  LossSum forward(Context& context, const Matrix& logits, const Targets& targets) const {
    return run(context, logits, targets, false);
  }

  /// The loss; the logits become its gradient, softmax - onehot, zeros in ignored rows.
  LossSum forward_backward(Context& context, const Matrix& logits, const Targets& targets) const {
    return run(context, logits, targets, true);
  }

 private:
  LossSum run(Context& context, const Matrix& logits, const Targets& targets, bool gradient) const {
    const std::int64_t rows = static_cast<std::int64_t>(logits.extent(0)), ranks = tensor_.size();
    require(static_cast<std::int64_t>(logits.extent(1)) == slice_.size() &&
                static_cast<std::int64_t>(targets.extent(0)) == rows,
            "cross entropy: logits of ", rows, " × ", logits.extent(1), " with ", targets.extent(0), " targets and ",
            slice_.size(), " columns here");
    auto scope = context.workspace.scope();
    const Matrix exchange = scope.template take<T>(2 * ranks + 1, rows);
    const device::CrossEntropyRows<T> work{rows,
                                           slice_,
                                           tensor_.size(),
                                           tensor_.rank(),
                                           logits.data(),
                                           targets.data(),
                                           exchange.data(),
                                           exchange.data() + ranks * rows,
                                           exchange.data() + 2 * ranks * rows,
                                           gradient};
    if (ranks > 1) {
      device::cross_entropy_local(context.execution, work);
      sum_over(context, tensor_, exchange);
    }
    return device::cross_entropy_finish(context.execution, work);
  }

  Communicator tensor_;
  Range slice_;
};

}  // namespace kerkis::nn
