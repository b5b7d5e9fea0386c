// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cmath>
#include <string>

#include <kerkis/device/residual.hpp>
#include <kerkis/nn/attention.hpp>
#include <kerkis/nn/dropout.hpp>
#include <kerkis/nn/layer_norm.hpp>
#include <kerkis/nn/mlp.hpp>

namespace kerkis::nn {

/// Of TransformerBlock.
struct BlockOptions {
  std::int64_t width = 0;           ///< columns in and out, divisible by `heads`
  std::int64_t heads = 1;           ///< of the attention, on all ranks
  std::int64_t context_length = 1;  ///< rows of a sequence
  std::int64_t layers = 1;  ///< of the whole model: residual projections begin with a deviation of 0.02 / √(2 layers)
  double dropout = 0;       ///< of the probabilities and of both residual branches
};

/// A pre-normalised transformer block: m = x + dropout(attention(norm1(x))), y = m + dropout(mlp(norm2(m))).
template <class T, class Space = Kokkos::DefaultExecutionSpace>
class TransformerBlock {
  using Attention = CausalSelfAttention<T, Space>;
  using Feed = Mlp<T, Space>;

 public:
  using Element = T;
  using ExecutionSpace = Space;
  using Matrix = kerkis::Matrix<T, Space>;
  using Context = kerkis::Context<Space>;
  struct SavedInput {
    typename Attention::SavedInput attention;
    Matrix input;                     ///< the caller's
    Matrix middle;                    ///< rows × width
    Matrix statistics1, statistics2;  ///< rows × 2
    device::DropoutMask<T> attention_mask, mlp_mask;
    std::uint64_t first_element = 0;  ///< of the microbatch, in both masks
  };
  struct SavedWeight {
    typename Attention::SavedWeight attention;
    typename Feed::SavedWeight mlp;
    Matrix normal1, normal2;  ///< rows × width
  };
  using Saved = kerkis::Saved<SavedInput, SavedWeight>;

  /// Its layers are called `<name>.norm1`, `.attention`, `.norm2` and `.mlp`. `tensor`: over which they are spread.
  /// Throws InputError for options that make no sense.
  TransformerBlock(const std::string& name, BlockOptions options, Communicator tensor = {})
      : options_(options), attention_stream_(stream_of(name + ".attention.dropout")),
        mlp_stream_(stream_of(name + ".mlp.dropout")), norm1_(name + ".norm1", options.width),
        attention_(name + ".attention",
                   {.width = options.width,
                    .heads = options.heads,
                    .context_length = options.context_length,
                    .dropout = options.dropout,
                    .output_deviation = deviation(options)},
                   tensor),
        norm2_(name + ".norm2", options.width),
        mlp_(name + ".mlp", {.width = options.width, .output_deviation = deviation(options)}, tensor) {}

  std::int64_t input_columns() const { return options_.width; }
  std::int64_t output_columns() const { return options_.width; }

  Saved make_saved(std::int64_t rows) const {
    auto attention = attention_.make_saved(rows);
    const auto matrix = [rows](std::int64_t columns) { return make_matrix<T, Space>("kerkis::block", rows, columns); };
    return {
        {std::move(attention.input), {}, matrix(options_.width), matrix(2), matrix(2), {}, {}, 0},
        {std::move(attention.weight), mlp_.make_saved(rows).weight, matrix(options_.width), matrix(options_.width)}};
  }

  void forward(Context& context, const Matrix& input, const Matrix& output, Saved& saved) {
    forward(context, input, output, saved.input, saved.weight);
  }
  void backward_input(Context& context, const Matrix& output_gradient, const Matrix& input_gradient, Saved& saved) {
    backward_input(context, output_gradient, input_gradient, saved.input, saved.weight);
  }
  void backward_weight(Context& context, Saved& saved) { backward_weight(context, saved.weight); }

  /// The same for a caller that keeps the two parts of what is saved apart.
  void forward(Context& context, const Matrix& input, const Matrix& output, SavedInput& kept, SavedWeight& weight) {
    const std::int64_t count = static_cast<std::int64_t>(input.extent(0));
    auto scope = context.workspace.scope();
    const Matrix branch = scope.template take<T>(count, options_.width);
    begin_forward(context, input, branch, kept, weight);
    mlp_.forward_without_bias(context, first_rows(weight.normal2, count), branch, weight.mlp);
    context.poll();
    device::add_residual(context.execution, count, options_.width, branch.data(), mlp_.bias(), kept.middle.data(),
                         output.data(), kept.mlp_mask, kept.first_element);
  }
  void backward_input(Context& context, const Matrix& output_gradient, const Matrix& input_gradient, SavedInput& kept,
                      SavedWeight& weight) {
    const std::int64_t count = static_cast<std::int64_t>(output_gradient.extent(0));
    auto scope = context.workspace.scope();
    const Matrix normal = scope.template take<T>(count, options_.width);  // gradient at the output of a norm

    device::dropout<Space, T>(context.execution, count, options_.width, kept.mlp_mask, kept.first_element,
                              static_cast<std::uint64_t>(options_.width), output_gradient.data(),
                              weight.mlp.output_gradient.data());
    mlp_.backward(context, normal, weight.mlp);
    context.poll();
    norm2_.backward(context, normal, first_rows(kept.middle, count), kept.statistics2, output_gradient.data(),
                    input_gradient, weight.attention.output_gradient.data(), kept.attention_mask, kept.first_element);
    attention_.backward(context, normal, kept.attention, weight.attention);
    context.poll();
    norm1_.backward(context, normal, kept.input, kept.statistics1, input_gradient.data(), input_gradient);
  }
  void backward_weight(Context& context, SavedWeight& weight) {
    mlp_.add_gradients(context, weight.mlp);
    context.poll();
    attention_.add_gradients(context, weight.attention);
    context.poll();
  }
  /// A forward whose output is known already: writes all that is saved, and nothing else.
  void recompute(Context& context, const Matrix& input, SavedInput& kept, SavedWeight& weight) {
    const std::int64_t count = static_cast<std::int64_t>(input.extent(0));
    auto scope = context.workspace.scope();
    begin_forward(context, input, scope.template take<T>(count, options_.width), kept, weight);
    mlp_.recompute(context, first_rows(weight.normal2, count), weight.mlp);
    context.poll();
  }

  template <class F>
  void for_each_parameter(F&& f) {
    norm1_.for_each_parameter(f);
    attention_.for_each_parameter(f);
    norm2_.for_each_parameter(f);
    mlp_.for_each_parameter(f);
  }

 private:
  /// Up to what the second branch takes. `branch` is scratch.
  void begin_forward(Context& context, const Matrix& input, const Matrix& branch, SavedInput& kept,
                     SavedWeight& weight) {
    const std::int64_t count = static_cast<std::int64_t>(input.extent(0));
    const Matrix normal1 = first_rows(weight.normal1, count), normal2 = first_rows(weight.normal2, count);
    kept.input = first_rows(input, count);
    kept.attention_mask = detail::dropout_mask<T>(context, attention_stream_, options_.dropout);
    kept.mlp_mask = detail::dropout_mask<T>(context, mlp_stream_, options_.dropout);
    kept.first_element = static_cast<std::uint64_t>(context.first_sample * options_.context_length * options_.width);

    device::norm_forward(context.execution, count, norm1_.kernel(kept.statistics1), input.data(), normal1.data());
    attention_.forward_without_bias(context, normal1, branch, kept.attention, weight.attention);
    context.poll();
    device::add_residual_and_norm(context.execution, count, branch.data(), attention_.bias(), input.data(),
                                  kept.middle.data(), kept.attention_mask, kept.first_element,
                                  norm2_.kernel(kept.statistics2), normal2.data());
  }

  static double deviation(const BlockOptions& options) {
    return 0.02 / std::sqrt(2.0 * static_cast<double>(options.layers));
  }

  BlockOptions options_;
  std::uint32_t attention_stream_, mlp_stream_;
  LayerNorm<T, Space> norm1_;
  Attention attention_;
  LayerNorm<T, Space> norm2_;
  Feed mlp_;
};

}  // namespace kerkis::nn
