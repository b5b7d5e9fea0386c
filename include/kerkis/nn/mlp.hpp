// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include <kerkis/device/gelu.hpp>
#include <kerkis/nn/linear.hpp>

namespace kerkis::nn {

/// Of Mlp.
struct MlpOptions {
  std::int64_t width = 0;          ///< columns in and out
  std::int64_t hidden = 0;         ///< 0: 4 × width
  double output_deviation = 0.02;  ///< of the initial weights of `down`
};

/// down(gelu(up(x))): the hidden columns are spread over the tensor axis; one all_reduce forward, one backward.
template <class T, class Space = Kokkos::DefaultExecutionSpace>
class Mlp {
 public:
  using Element = T;
  using ExecutionSpace = Space;
  using Matrix = kerkis::Matrix<T, Space>;
  using Context = kerkis::Context<Space>;
  struct SavedInput {};
  struct SavedWeight {
    Matrix input;   ///< the caller's
    Matrix hidden;  ///< rows × local hidden: derivative of the activation; after backward_input the gradient before it
    Matrix activation;       ///< rows × local hidden
    Matrix output_gradient;  ///< rows × width
  };
  using Saved = kerkis::Saved<SavedInput, SavedWeight>;

  /// Its layers are called `<name>.up` and `<name>.down`. `tensor`: over which they are spread.
  Mlp(const std::string& name, MlpOptions options, Communicator tensor = {})
      : width_(options.width), up_(name + ".up", width_, hidden(options), {.split = Split::output}, tensor),
        down_(name + ".down", hidden(options), width_,
              {.split = Split::input, .weight = Initial::normal(options.output_deviation)}, tensor) {}

  std::int64_t input_columns() const { return width_; }
  std::int64_t output_columns() const { return width_; }

  Saved make_saved(std::int64_t rows) const {
    return {{},
            {{},
             make_matrix<T, Space>("kerkis::hidden", rows, up_.output_columns()),
             make_matrix<T, Space>("kerkis::activation", rows, up_.output_columns()),
             make_matrix<T, Space>("kerkis::mlp_gradient", rows, width_)}};
  }

  void forward(Context& context, const Matrix& input, const Matrix& output, Saved& saved) {
    forward_without_bias(context, input, output, saved.weight);
    device::add_bias(context.execution, rows(output), width_, bias(), output.data());
  }
  void backward_input(Context& context, const Matrix& output_gradient, const Matrix& input_gradient, Saved& saved) {
    Kokkos::deep_copy(context.execution, first_rows(saved.weight.output_gradient, rows(output_gradient)),
                      output_gradient);
    backward(context, input_gradient, saved.weight);
  }
  void backward_weight(Context& context, Saved& saved) { add_gradients(context, saved.weight); }
  template <class F>
  void for_each_parameter(F&& f) {
    up_.for_each_parameter(f);
    down_.for_each_parameter(f);
  }

  /// The parts, for a layer that fuses what comes before and after. Forward without the bias of the output.
  void forward_without_bias(Context& context, const Matrix& input, const Matrix& output, SavedWeight& weight) {
    recompute(context, input, weight);
    down_.product(context, first_rows(weight.activation, rows(input)), output);
  }
  /// What forward saves, without the output.
  void recompute(Context& context, const Matrix& input, SavedWeight& weight) {
    const Matrix hidden = first_rows(weight.hidden, rows(input));
    weight.input = first_rows(input, rows(input));
    up_.product(context, input, hidden);
    context.poll();
    device::gelu_forward<Space, T>(context.execution, rows(input), up_.output_columns(), up_.bias(), hidden.data(),
                                   weight.activation.data(), hidden.data());
  }
  /// Of `down`: `width` elements.
  const T* bias() const { return down_.bias(); }
  /// From weight.output_gradient, which the caller has filled.
  void backward(Context& context, const Matrix& input_gradient, SavedWeight& weight) {
    auto scope = context.workspace.scope();
    const std::int64_t count = rows(input_gradient);
    const Matrix hidden = first_rows(weight.hidden, count);
    const Matrix gradient = scope.template take<T>(count, up_.output_columns());
    down_.backward_product(context, first_rows(weight.output_gradient, count), gradient);
    context.poll();
    device::multiply<Space, T>(context.execution, count, up_.output_columns(), gradient.data(), hidden.data(),
                               hidden.data());
    up_.backward_product(context, hidden, input_gradient);
  }
  /// All of backward_weight.
  void add_gradients(Context& context, SavedWeight& weight) {
    const std::int64_t count = rows(weight.input);
    down_.add_gradients(context, first_rows(weight.activation, count), first_rows(weight.output_gradient, count));
    context.poll();
    up_.add_gradients(context, weight.input, first_rows(weight.hidden, count));
  }

 private:
  static std::int64_t rows(const Matrix& matrix) { return static_cast<std::int64_t>(matrix.extent(0)); }
  static std::int64_t hidden(const MlpOptions& options) {
    return options.hidden == 0 ? 4 * options.width : options.hidden;
  }

  std::int64_t width_;
  Linear<T, Space> up_, down_;
};

}  // namespace kerkis::nn
