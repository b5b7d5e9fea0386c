// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <kerkis/core/error.hpp>
#include <kerkis/device/layer_norm.hpp>
#include <kerkis/module/module.hpp>

namespace kerkis::nn {

/// Layer normalisation (arXiv:1607.06450) with `<name>.gain` and `<name>.bias`, whole on every tensor rank, ε = 1e-5.
/// The gradients of both are added by backward_input already, where their operands are at hand: backward_weight has
/// nothing left to do.
template <class T, class Space = Kokkos::DefaultExecutionSpace>
class LayerNorm {
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
  struct SavedWeight {};
  using Saved = kerkis::Saved<SavedInput, SavedWeight>;

  /// Over rows of `width` columns. Throws InputError if that is below 1.
  LayerNorm(const std::string& name, std::int64_t width)
      : width_(width), gain_(Parameter::whole(name + ".gain", {width}, Initial::constant(1), false)),
        bias_(Parameter::whole(name + ".bias", {width}, Initial::constant(0), false)) {
    require(width > 0, name, ": a layer normalisation over ", width, " columns");
  }

  std::int64_t input_columns() const { return width_; }
  std::int64_t output_columns() const { return width_; }
  Saved make_saved(std::int64_t rows) const { return {{{}, make_matrix<T, Space>("kerkis::statistics", rows, 2)}, {}}; }

  void forward(Context& context, const Matrix& input, const Matrix& output, Saved& saved) {
    saved.input.input = first_rows(input, rows(input));
    device::norm_forward(context.execution, rows(input), kernel(saved.input.statistics), input.data(), output.data());
  }
  void backward_input(Context& context, const Matrix& output_gradient, const Matrix& input_gradient, Saved& saved) {
    backward(context, output_gradient, saved.input.input, saved.input.statistics, nullptr, input_gradient);
  }
  void backward_weight(Context&, Saved&) {}
  template <class F>
  void for_each_parameter(F&& f) {
    f(gain_);
    f(bias_);
  }

  /// For layers that fuse it: the kernel's description, with memory for its statistics.
  device::Norm<T> kernel(const Matrix& statistics) const {
    return {width_, T(1e-5), gain_.value.data(), bias_.value.data(), statistics.data()};
  }
  /// Gradients of gain and bias, and input_gradient = residual + gradient of the input; see device::norm_backward.
  void backward(Context& context, const Matrix& output_gradient, const Matrix& input, const Matrix& statistics,
                const T* residual, const Matrix& input_gradient, T* masked = nullptr,
                const device::DropoutMask<T>& mask = {}, std::uint64_t first = 0) {
    const device::Norm<T> norm = kernel(statistics);
    device::norm_weights(context.execution, rows(input), norm, output_gradient.data(), input.data(),
                         gain_.gradient.data(), bias_.gradient.data());
    device::norm_backward(context.execution, rows(input), norm, output_gradient.data(), input.data(), residual,
                          input_gradient.data(), masked, mask, first);
  }

 private:
  static std::int64_t rows(const Matrix& matrix) { return static_cast<std::int64_t>(matrix.extent(0)); }

  std::int64_t width_;
  Parameter gain_, bias_;
};

}  // namespace kerkis::nn
