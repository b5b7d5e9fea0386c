// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <kerkis/core/error.hpp>
#include <kerkis/device/column_sums.hpp>
#include <kerkis/device/gemm.hpp>
#include <kerkis/device/residual.hpp>
#include <kerkis/module/module.hpp>
#include <kerkis/tensor_parallel/sum_over.hpp>

namespace kerkis::nn {

/// How a linear layer is spread over the tensor axis (Shoeybi et al. 2019, arXiv:1909.08053).
enum class Split {
  none,    ///< every rank holds all of it
  output,  ///< column parallel: a rank computes some of the outputs; the gradient of the input is summed over the axis
  input    ///< row parallel: a rank has some of the inputs; the output is summed over the axis, then the bias added
};

/// Of Linear.
struct LinearOptions {
  Split split = Split::none;               ///< over the tensor axis
  bool bias = true;                        ///< whether there is one; it begins with zeros
  Initial weight = Initial::normal(0.02);  ///< how W begins
};

/// y = x Wᵀ + b with W (outputs × inputs) as `<name>.weight` and b as `<name>.bias`. Extents are spread by `partition`,
/// unevenly where need be; empty shares are legal.
template <class T, class Space = Kokkos::DefaultExecutionSpace>
class Linear {
 public:
  using Element = T;
  using ExecutionSpace = Space;
  using Matrix = kerkis::Matrix<T, Space>;
  using Parameter = kerkis::Parameter<T, Space>;
  using Context = kerkis::Context<Space>;
  struct SavedInput {};
  struct SavedWeight {
    Matrix input;            ///< the caller's
    Matrix output_gradient;  ///< filled by backward_input; a caller that has written it there itself saves a copy
  };
  using Saved = kerkis::Saved<SavedInput, SavedWeight>;

  /// `inputs`, `outputs`: columns of all ranks of `tensor`. Throws InputError if one is below 1.
  Linear(const std::string& name, std::int64_t inputs, std::int64_t outputs, LinearOptions options = {},
         Communicator tensor = {})
      : split_(options.split), tensor_(std::move(tensor)) {
    require(inputs > 0 && outputs > 0, name, ": a linear layer from ", inputs, " to ", outputs, " columns");
    const std::vector<std::int64_t> shape{outputs, inputs};
    const auto share = [&](std::int64_t extent) { return partition(extent, tensor_.size(), tensor_.rank()); };
    weight_ = std::make_shared<Parameter>(
        split_ == Split::output  ? Parameter::sliced(name + ".weight", shape, 0, share(outputs), options.weight, true)
        : split_ == Split::input ? Parameter::sliced(name + ".weight", shape, 1, share(inputs), options.weight, true)
                                 : Parameter::whole(name + ".weight", shape, options.weight, true));
    if (options.bias)
      bias_ = split_ == Split::output
                  ? Parameter::sliced(name + ".bias", {outputs}, 0, share(outputs), Initial::constant(0), false)
                  : Parameter::whole(name + ".bias", {outputs}, Initial::constant(0), false);
    measure();
  }

  /// From parameters of any shape: the last dimension of `weight` counts the inputs, all others the outputs. A shared
  /// weight (tied to an embedding) collects the gradients of all who share it.
  Linear(std::shared_ptr<Parameter> weight, std::optional<Parameter> bias, Split split, Communicator tensor = {})
      : weight_(std::move(weight)), bias_(std::move(bias)), split_(split), tensor_(std::move(tensor)) {
    measure();
  }

  /// Of this rank.
  std::int64_t input_columns() const { return inputs_; }
  std::int64_t output_columns() const { return outputs_; }
  /// W, or this rank's part of it.
  const std::shared_ptr<Parameter>& weight() const { return weight_; }
  /// Null without a bias.
  const T* bias() const { return bias_ ? bias_->value.data() : nullptr; }

  Saved make_saved(std::int64_t rows) const {
    return {{}, {{}, make_matrix<T, Space>("kerkis::linear", rows, outputs_)}};
  }

  void forward(Context& context, const Matrix& input, const Matrix& output, Saved& saved) {
    saved.weight.input = view(input);
    product(context, input, output);
    if (bias_) device::add_bias(context.execution, rows(output), outputs_, bias(), output.data());
  }
  void backward_input(Context& context, const Matrix& output_gradient, const Matrix& input_gradient, Saved& saved) {
    const Matrix kept = first_rows(saved.weight.output_gradient, rows(output_gradient));
    if (kept.data() != output_gradient.data()) Kokkos::deep_copy(context.execution, kept, output_gradient);
    backward_product(context, kept, input_gradient);
  }
  void backward_weight(Context& context, Saved& saved) {
    add_gradients(context, saved.weight.input, first_rows(saved.weight.output_gradient, rows(saved.weight.input)));
  }
  template <class F>
  void for_each_parameter(F&& f) {
    f(*weight_);
    if (bias_) f(*bias_);
  }

  /// The parts, for layers that keep their own buffers and fuse the bias. x Wᵀ, summed if split by input, without the
  /// bias.
  void product(Context& context, const Matrix& input, const Matrix& output) const {
    device::gemm(context.execution, device::Transpose::no, device::Transpose::yes, T(1), input, matrix(weight_->value),
                 T(0), output, &context.workspace.blas());
    if (split_ == Split::input) sum_over(context, tensor_, output);
  }
  /// dy W, summed if split by output.
  void backward_product(Context& context, const Matrix& output_gradient, const Matrix& input_gradient) const {
    device::gemm(context.execution, device::Transpose::no, device::Transpose::no, T(1), output_gradient,
                 matrix(weight_->value), T(0), input_gradient, &context.workspace.blas());
    if (split_ == Split::output) sum_over(context, tensor_, input_gradient);
  }
  /// Adds dyᵀ x, and the column sums of dy, to the gradients.
  void add_gradients(Context& context, const Matrix& input, const Matrix& output_gradient) {
    device::gemm(context.execution, device::Transpose::yes, device::Transpose::no, T(1), output_gradient, input, T(1),
                 matrix(weight_->gradient), &context.workspace.blas());
    if (bias_)
      device::add_column_sums(context.execution, rows(output_gradient), outputs_, output_gradient.data(),
                              bias_->gradient.data());
  }

 private:
  static std::int64_t rows(const Matrix& matrix) { return static_cast<std::int64_t>(matrix.extent(0)); }
  static Matrix view(const Matrix& matrix) { return first_rows(matrix, rows(matrix)); }

  Matrix matrix(const Vector<T, Space>& flat) const {
    return Matrix(flat.data(), static_cast<std::size_t>(outputs_), static_cast<std::size_t>(inputs_));
  }

  void measure() {
    const std::size_t last = weight_->shape.size() - 1;
    outputs_ = 1;
    for (std::size_t d = 0; d <= last; ++d)
      (d == last ? inputs_ : outputs_) *= d == weight_->sliced_dimension ? weight_->slice.size() : weight_->shape[d];
  }

  std::shared_ptr<Parameter> weight_;
  std::optional<Parameter> bias_;
  Split split_;
  Communicator tensor_;
  std::int64_t inputs_ = 1, outputs_ = 1;
};

}  // namespace kerkis::nn
