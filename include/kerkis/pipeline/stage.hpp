// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>

#include <kerkis/core/loss_sum.hpp>
#include <kerkis/module/context.hpp>
#include <kerkis/module/matrix.hpp>
#include <kerkis/module/module.hpp>
#include <kerkis/module/parameter.hpp>

namespace kerkis {

/// One of several matrices that a stage hands to the next.
struct BoundaryMatrix {
  std::int64_t columns = 0;  ///< the same for both stages
  bool has_gradient = true;  ///< which goes back in training
};

namespace detail {

template <class S>
concept HasSeveralMatrices = requires(const S& stage) {
  stage.input_matrices();
  stage.output_matrices();
};

/// What is known of a stage's boundaries. `count` matrices, the same at every boundary of one type of stage.
template <class S>
struct StageTraits {
  using View = Matrix<typename S::Element, typename S::ExecutionSpace>;
  static constexpr std::size_t count = 1;
  using Views = View;
  using Matrices = std::array<BoundaryMatrix, 1>;

  static Matrices input(const S& stage) {
    if constexpr (requires { stage.input_columns(); })
      return {BoundaryMatrix{stage.input_columns()}};
    else
      return {BoundaryMatrix{stage.columns()}};
  }
  static Matrices output(const S& stage) {
    if constexpr (requires { stage.output_columns(); })
      return {BoundaryMatrix{stage.output_columns()}};
    else
      return {BoundaryMatrix{stage.columns()}};
  }
  static const View& at(const Views& views, std::size_t) { return views; }
  template <class F>
  static Views make(F&& f) {
    return f(std::size_t{0});
  }
};
template <HasSeveralMatrices S>
struct StageTraits<S> {
  using View = Matrix<typename S::Element, typename S::ExecutionSpace>;
  using Matrices = std::decay_t<decltype(std::declval<const S&>().input_matrices())>;
  static constexpr std::size_t count = std::tuple_size_v<Matrices>;
  using Views = std::array<View, count>;

  static Matrices input(const S& stage) { return stage.input_matrices(); }
  static Matrices output(const S& stage) { return stage.output_matrices(); }
  static const View& at(const Views& views, std::size_t i) { return views[i]; }
  template <class F>
  static Views make(F&& f) {
    Views views;
    for (std::size_t i = 0; i < count; ++i) views[i] = f(i);
    return views;
  }
};

/// Whether a stage may hand on other numbers of rows than it got.
template <class S>
constexpr bool changes_rows() {
  if constexpr (requires { S::changes_rows; })
    return S::changes_rows;
  else
    return false;
}

}  // namespace detail

/// What a stage hands on and gets: a Matrix, or as many as its boundaries have.
template <class S>
using BoundaryViews = typename detail::StageTraits<S>::Views;

/// A slice of a program that one pipeline rank computes, forward only: `forward(context, microbatch, input, output)`
/// writes all of `output`. The first stage ignores `input`, the last one `output`: they use the microbatch, whose
/// nested type is the stage's own (it has `rows()` and `first_sample`). Where a table feeds back (`Table::feedback`)
/// the first stage gets what the last one has handed on, as many columns: `input` has none where nothing is fed, and
/// the last stage's `output` none where nothing is fed from it.
///
/// At a boundary lies one matrix of `columns()` columns (or `input_columns()` and `output_columns()`), with a gradient
/// in training. For several, a stage has `input_matrices()` and `output_matrices()` instead, which return
/// std::array<BoundaryMatrix, N>, and takes std::array<Matrix, N> wherever one with a single matrix takes a Matrix;
/// gradients of matrices without one are empty. They may have 0 columns at the ends of the pipeline.
///
/// Matrices have as many rows as the microbatch. With `static constexpr bool changes_rows = true` a stage gets what the
/// one before has sent, and room for as many rows as the executor was made for in `output`, which it takes as a
/// reference that is not const and cuts to what it has made: `output = first_rows(output, made)`.
///
/// Actions of the table that compute nothing go to `perform(context, action)`, if the stage has it.
template <class S>
concept ForwardStage =
    requires(S stage, Context<typename S::ExecutionSpace>& context, const typename S::Microbatch& microbatch,
             const BoundaryViews<S>& input, BoundaryViews<S>& output) {
      typename S::Element;
      { microbatch.rows() } -> std::convertible_to<std::int64_t>;
      { microbatch.first_sample } -> std::convertible_to<std::int64_t>;
      requires requires(typename S::Saved& saved) {
        { stage.forward(context, microbatch, input, output, saved) } -> std::same_as<LossSum>;
        { stage.make_saved(std::int64_t{}) } -> std::same_as<typename S::Saved>;
      } || requires { stage.forward(context, microbatch, input, output); };
    };

/// A slice of a model, which can be trained. Buffer rules are those of `Module`.
///
///  - `forward(context, microbatch, input, output, saved)` returns the loss of the last stage, nothing ({0, 0})
///    elsewhere.
///  - `backward(context, microbatch, output_gradient, input_gradient, saved, ready)`: both halves, layer by layer.
///    `ready(parameter)` says that the gradients of `parameter` and of all declared after it are complete for this
///    microbatch. The first stage ignores `input_gradient`, the last one `output_gradient`.
///  - `backward_input` and `backward_weight`: the halves; the second takes `ready`. `saved.input` is another
///    microbatch's between the two.
template <class S>
concept PipelineStage =
    ForwardStage<S> &&
    requires(S stage, Context<typename S::ExecutionSpace>& context, const typename S::Microbatch& microbatch,
             const BoundaryViews<S>& matrices, typename S::Saved& saved,
             void (*ready)(const Parameter<typename S::Element, typename S::ExecutionSpace>&)) {
      stage.backward(context, microbatch, matrices, matrices, saved, ready);
      stage.backward_input(context, microbatch, matrices, matrices, saved);
      stage.backward_weight(context, microbatch, saved, ready);
    };

namespace detail {

/// Calls the form of `forward` that a stage has.
template <class S, class Saved>
LossSum forward(S& stage, Context<typename S::ExecutionSpace>& context, const typename S::Microbatch& microbatch,
                const BoundaryViews<S>& input, BoundaryViews<S>& output, [[maybe_unused]] Saved& saved) {
  if constexpr (requires { stage.forward(context, microbatch, input, output, saved); })
    return stage.forward(context, microbatch, input, output, saved);
  else if constexpr (std::is_convertible_v<decltype(stage.forward(context, microbatch, input, output)), LossSum>)
    return stage.forward(context, microbatch, input, output);
  else
    return stage.forward(context, microbatch, input, output), LossSum{};
}

}  // namespace detail

}  // namespace kerkis
