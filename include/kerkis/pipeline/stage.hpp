// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>

#include <kerkis/module/context.hpp>
#include <kerkis/core/loss_sum.hpp>
#include <kerkis/module/matrix.hpp>
#include <kerkis/module/parameter.hpp>

namespace kerkis {

/// A slice of a model that one pipeline rank computes. The first stage ignores `input`, the last one `output` and
/// `output_gradient`: they take tokens and targets from the microbatch, whose nested type is the stage's own (it has
/// `rows()` and `first_sample`). Buffer rules are those of `Module`.
///
///  - `forward(context, microbatch, input, output, saved)` returns the loss of the last stage, nothing ({0, 0})
///  elsewhere.
///  - `backward(context, microbatch, output_gradient, input_gradient, saved, ready)`: both halves, layer by layer.
///    `ready(parameter)` says that the gradients of `parameter` and of all declared after it are complete for this
///    microbatch.
///  - `backward_input` and `backward_weight`: the halves; the second takes `ready`.
///  - `columns()`: of the matrices at the stage's boundaries.
template <class S>
concept PipelineStage =
    requires(S stage, Context<typename S::ExecutionSpace>& context, const typename S::Microbatch& microbatch,
             const Matrix<typename S::Element, typename S::ExecutionSpace>& matrix, typename S::Saved& saved,
             void (*ready)(const Parameter<typename S::Element, typename S::ExecutionSpace>&)) {
      { stage.forward(context, microbatch, matrix, matrix, saved) } -> std::same_as<LossSum>;
      stage.backward(context, microbatch, matrix, matrix, saved, ready);
      stage.backward_input(context, microbatch, matrix, matrix, saved);
      stage.backward_weight(context, microbatch, saved, ready);
      { stage.make_saved(std::int64_t{}) } -> std::same_as<typename S::Saved>;
      { stage.columns() } -> std::convertible_to<std::int64_t>;
      { microbatch.rows() } -> std::convertible_to<std::int64_t>;
      { microbatch.first_sample } -> std::convertible_to<std::int64_t>;
    };

}  // namespace kerkis
