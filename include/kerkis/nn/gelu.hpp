// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kerkis/device/gelu.hpp>
#include <kerkis/module/module.hpp>

namespace kerkis::nn {

/// GELU in its tanh form (arXiv:1606.08415), element by element.
template <class T, class Space = Kokkos::DefaultExecutionSpace>
class Gelu {
 public:
  using Element = T;
  using ExecutionSpace = Space;
  using Matrix = kerkis::Matrix<T, Space>;
  using Context = kerkis::Context<Space>;
  struct SavedInput {
    Matrix derivative;
  };
  struct SavedWeight {};
  using Saved = kerkis::Saved<SavedInput, SavedWeight>;

  /// `columns`: in and out, on this rank.
  explicit Gelu(std::int64_t columns) : columns_(columns) {}

  std::int64_t input_columns() const { return columns_; }
  std::int64_t output_columns() const { return columns_; }
  Saved make_saved(std::int64_t rows) const { return {{make_matrix<T, Space>("kerkis::gelu", rows, columns_)}, {}}; }

  void forward(Context& context, const Matrix& input, const Matrix& output, Saved& saved) {
    device::gelu_forward<Space, T>(context.execution, rows(input), columns_, nullptr, input.data(), output.data(),
                                   saved.input.derivative.data());
  }
  void backward_input(Context& context, const Matrix& output_gradient, const Matrix& input_gradient, Saved& saved) {
    device::multiply<Space, T>(context.execution, rows(output_gradient), columns_, output_gradient.data(),
                               saved.input.derivative.data(), input_gradient.data());
  }
  void backward_weight(Context&, Saved&) {}
  template <class F>
  void for_each_parameter(F&&) {}

 private:
  static std::int64_t rows(const Matrix& matrix) { return static_cast<std::int64_t>(matrix.extent(0)); }

  std::int64_t columns_;
};

}  // namespace kerkis::nn
