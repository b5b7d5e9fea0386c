// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <memory>
#include <string>

#include <kerkis/device/attention.hpp>
#include <kerkis/nn/dropout.hpp>
#include <kerkis/nn/linear.hpp>

namespace kerkis::nn {

/// Of CausalSelfAttention.
struct AttentionOptions {
  std::int64_t width = 0;           ///< columns in and out, divisible by `heads`
  std::int64_t heads = 1;           ///< of all ranks
  std::int64_t context_length = 1;  ///< rows of a sequence
  double dropout = 0;               ///< of the probabilities
  double output_deviation = 0.02;   ///< of the initial weights of the output projection
};

/// Causal self-attention with several heads (Vaswani et al. 2017, arXiv:1706.03762). Rows are whole sequences.
///
/// Heads are spread over the tensor axis by `partition`, unevenly where need be, also none at all: a rank holds the
/// rows of
/// `<name>.qkv.weight` (3, width, width) and `<name>.qkv.bias` (3, width) of its heads and the columns of
/// `<name>.out.weight` (width, width); `<name>.out.bias` is whole. One all_reduce forward, one backward.
template <class T, class Space = Kokkos::DefaultExecutionSpace>
class CausalSelfAttention {
 public:
  using Element = T;
  using ExecutionSpace = Space;
  using Matrix = kerkis::Matrix<T, Space>;
  using Parameter = kerkis::Parameter<T, Space>;
  using Context = kerkis::Context<Space>;
  struct SavedInput {
    Matrix logarithms;            ///< rows × local heads, laid out (sequence, head, position)
    device::DropoutMask<T> mask;  ///< of the probabilities
    std::int64_t first_sample = 0;
  };
  struct SavedWeight {
    Matrix input;            ///< the caller's
    Matrix qkv;              ///< rows × 3 local width; its gradient after backward_input
    Matrix heads;            ///< rows × local width, what the output projection gets
    Matrix output_gradient;  ///< rows × width
  };
  using Saved = kerkis::Saved<SavedInput, SavedWeight>;

  /// `tensor`: over which the heads are spread. Throws InputError for options that make no sense.
  CausalSelfAttention(const std::string& name, AttentionOptions options, Communicator tensor = {})
      : options_(options), heads_(checked_heads(name, options, tensor)), head_width_(options.width / options.heads),
        stream_(stream_of(name + ".probabilities")),
        qkv_(std::make_shared<Parameter>(Parameter::sliced(name + ".qkv.weight", {3, options.width, options.width}, 1,
                                                           columns(), Initial::normal(0.02), true)),
             Parameter::sliced(name + ".qkv.bias", {3, options.width}, 1, columns(), Initial::constant(0), false),
             Split::output, tensor),
        out_(std::make_shared<Parameter>(Parameter::sliced(name + ".out.weight", {options.width, options.width}, 1,
                                                           columns(), Initial::normal(options.output_deviation), true)),
             Parameter::whole(name + ".out.bias", {options.width}, Initial::constant(0), false), Split::input, tensor) {
    detail::checked_rate(name, options.dropout);
  }

  std::int64_t input_columns() const { return options_.width; }
  std::int64_t output_columns() const { return options_.width; }

  Saved make_saved(std::int64_t rows) const {
    const std::int64_t local = columns().size();
    return {{make_matrix<T, Space>("kerkis::logarithms", rows, heads_.size()), {}, 0},
            {{},
             make_matrix<T, Space>("kerkis::qkv", rows, 3 * local),
             make_matrix<T, Space>("kerkis::heads", rows, local),
             make_matrix<T, Space>("kerkis::attention_gradient", rows, options_.width)}};
  }

  void forward(Context& context, const Matrix& input, const Matrix& output, Saved& saved) {
    forward_without_bias(context, input, output, saved.input, saved.weight);
    device::add_bias(context.execution, rows(output), options_.width, bias(), output.data());
  }
  void backward_input(Context& context, const Matrix& output_gradient, const Matrix& input_gradient, Saved& saved) {
    const Matrix kept = first_rows(saved.weight.output_gradient, rows(output_gradient));
    Kokkos::deep_copy(context.execution, kept, output_gradient);
    backward(context, input_gradient, saved.input, saved.weight);
  }
  void backward_weight(Context& context, Saved& saved) { add_gradients(context, saved.weight); }
  template <class F>
  void for_each_parameter(F&& f) {
    qkv_.for_each_parameter(f);
    out_.for_each_parameter(f);
  }

  /// The parts, for a layer that fuses what comes before and after. Forward without the bias of the output.
  void forward_without_bias(Context& context, const Matrix& input, const Matrix& output, SavedInput& saved,
                            SavedWeight& weight) {
    require(rows(input) % options_.context_length == 0, "attention over sequences of ", options_.context_length,
            " got ", rows(input), " rows");
    auto scope = context.workspace.scope();
    weight.input = first_rows(input, rows(input));
    saved.mask = detail::dropout_mask<T>(context, stream_, options_.dropout);
    saved.first_sample = context.first_sample;
    qkv_.product(context, input, first_rows(weight.qkv, rows(input)));
    context.poll();
    device::Attention<T> attention = kernel(context, saved, weight, rows(input));
    attention.scratch = scope.template take<T>(attention.workers, attention.forward_scratch()).data();
    device::attention_forward(context.execution, attention, qkv_.bias(), weight.heads.data());
    context.poll();
    out_.product(context, first_rows(weight.heads, rows(input)), output);
  }
  /// Of the output projection: `width` elements.
  const T* bias() const { return out_.bias(); }
  /// From weight.output_gradient, which the caller has filled.
  void backward(Context& context, const Matrix& input_gradient, const SavedInput& saved, SavedWeight& weight) {
    auto scope = context.workspace.scope();
    const std::int64_t count = rows(input_gradient);
    const Matrix gradient = scope.template take<T>(count, columns().size());
    out_.backward_product(context, first_rows(weight.output_gradient, count), gradient);
    device::Attention<T> attention = kernel(context, saved, weight, count);
    attention.scratch = scope.template take<T>(attention.workers, attention.backward_scratch()).data();
    device::attention_backward(context.execution, attention, weight.heads.data(), gradient.data());
    context.poll();
    qkv_.backward_product(context, first_rows(weight.qkv, count), input_gradient);
  }
  /// All of backward_weight.
  void add_gradients(Context& context, SavedWeight& weight) {
    const std::int64_t count = rows(weight.input);
    out_.add_gradients(context, first_rows(weight.heads, count), first_rows(weight.output_gradient, count));
    context.poll();
    qkv_.add_gradients(context, weight.input, first_rows(weight.qkv, count));
  }

 private:
  static std::int64_t rows(const Matrix& matrix) { return static_cast<std::int64_t>(matrix.extent(0)); }
  static Range checked_heads(const std::string& name, const AttentionOptions& options, const Communicator& tensor) {
    require(options.heads > 0 && options.width > 0 && options.width % options.heads == 0, name, ": a width of ",
            options.width, " cannot be cut into ", options.heads, " heads");
    require(options.context_length > 0, name, ": a context of ", options.context_length);
    return partition(options.heads, tensor.size(), tensor.rank());
  }
  /// Of queries, keys and values, and so of the inputs of the output projection, that belong to this rank's heads.
  Range columns() const { return {heads_.begin * head_width_, heads_.end * head_width_}; }

  device::Attention<T> kernel(const Context& context, const SavedInput& saved, const SavedWeight& weight,
                              std::int64_t count) const {
    device::Attention<T> attention{};
    attention.sequences = count / options_.context_length;
    attention.heads = heads_.size();
    attention.context = options_.context_length;
    attention.head_width = head_width_;
    attention.first_sample = saved.first_sample;
    attention.first_head = heads_.begin;
    attention.all_heads = options_.heads;
    attention.mask = saved.mask;
    attention.qkv = weight.qkv.data();
    attention.logarithms = saved.logarithms.data();
    attention.workers = std::min<std::int64_t>(attention.items(), context.execution.concurrency());
    return attention;
  }

  AttentionOptions options_;
  Range heads_;
  std::int64_t head_width_;
  std::uint32_t stream_;
  Linear<T, Space> qkv_, out_;
};

}  // namespace kerkis::nn
