// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <kerkis/nn/layer_norm.hpp>
#include <kerkis/nn/linear.hpp>

namespace kerkis::nn {

/// Of Head.
struct HeadOptions {
  std::int64_t width = 0;       ///< columns of the input
  std::int64_t vocabulary = 0;  ///< of all ranks
};

/// The end of a language model: layer normalisation (`<name>.norm`) and the product with a table (vocabulary, width)
/// that is spread over the tensor axis by rows. Its output is the logits of this rank's slice of the vocabulary.
template <class T, class Space = Kokkos::DefaultExecutionSpace>
class Head {
 public:
  using Element = T;
  using ExecutionSpace = Space;
  using Matrix = kerkis::Matrix<T, Space>;
  using Parameter = kerkis::Parameter<T, Space>;
  using Context = kerkis::Context<Space>;
  struct SavedInput {
    Matrix input;       ///< the caller's
    Matrix statistics;  ///< rows × 2
  };
  struct SavedWeight {
    Matrix normal;  ///< rows × width
    Matrix logits;  ///< rows × local vocabulary: see `logits`
    std::int64_t rows = 0;
  };
  using Saved = kerkis::Saved<SavedInput, SavedWeight>;

  /// With a table of its own, `<name>.weight`.
  Head(const std::string& name, HeadOptions options, Communicator tensor = {})
      : Head(name, options,
             std::make_shared<Parameter>(Parameter::sliced(name + ".weight", {options.vocabulary, options.width}, 0,
                                                           partition(options.vocabulary, tensor.size(), tensor.rank()),
                                                           Initial::normal(0.02), true)),
             tensor) {
    owns_table_ = true;
  }
  /// Tied to the table of an embedding, or to a copy of it: it adds to its gradient but does not name it in
  /// for_each_parameter.
  Head(const std::string& name, HeadOptions options, std::shared_ptr<Parameter> table, Communicator tensor = {})
      : options_(options), norm_(name + ".norm", options.width),
        product_(std::move(table), std::nullopt, Split::output, std::move(tensor)) {
    require(product_.input_columns() == options.width, name, ": a table of ", product_.input_columns(),
            " columns for a width of ", options.width);
  }

  std::int64_t input_columns() const { return options_.width; }
  /// This rank's share of the vocabulary.
  std::int64_t output_columns() const { return product_.output_columns(); }
  /// Its own, or the one to which it is tied.
  const std::shared_ptr<Parameter>& table() const { return product_.weight(); }

  Saved make_saved(std::int64_t rows) const {
    return {{{}, make_matrix<T, Space>("kerkis::statistics", rows, 2)},
            {make_matrix<T, Space>("kerkis::head", rows, options_.width),
             make_matrix<T, Space>("kerkis::logits", rows, output_columns()), 0}};
  }
  /// Memory for the logits, and for their gradient in the same place: forward may write it, the loss transform it, and
  /// backward_input take it, without a copy.
  Matrix logits(const Saved& saved, std::int64_t rows) const { return logits(saved.weight, rows); }
  /// The same for a caller that keeps the parts of what is saved apart.
  Matrix logits(const SavedWeight& saved, std::int64_t rows) const { return first_rows(saved.logits, rows); }

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
    const Matrix normal = first_rows(weight.normal, count);
    kept.input = first_rows(input, count);
    weight.rows = count;
    device::norm_forward(context.execution, count, norm_.kernel(kept.statistics), input.data(), normal.data());
    product_.product(context, normal, output);
  }
  void backward_input(Context& context, const Matrix& output_gradient, const Matrix& input_gradient, SavedInput& kept,
                      SavedWeight& weight) {
    const std::int64_t count = static_cast<std::int64_t>(output_gradient.extent(0));
    const Matrix gradient = logits(weight, count);
    if (gradient.data() != output_gradient.data()) Kokkos::deep_copy(context.execution, gradient, output_gradient);
    auto scope = context.workspace.scope();
    const Matrix normal = scope.template take<T>(count, options_.width);
    product_.backward_product(context, gradient, normal);
    context.poll();
    norm_.backward(context, normal, kept.input, kept.statistics, nullptr, input_gradient);
  }
  void backward_weight(Context& context, SavedWeight& weight) {
    product_.add_gradients(context, first_rows(weight.normal, weight.rows), logits(weight, weight.rows));
  }
  template <class F>
  void for_each_parameter(F&& f) {
    norm_.for_each_parameter(f);
    if (owns_table_) f(*table());
  }

 private:
  HeadOptions options_;
  LayerNorm<T, Space> norm_;
  Linear<T, Space> product_;
  bool owns_table_ = false;
};

}  // namespace kerkis::nn
