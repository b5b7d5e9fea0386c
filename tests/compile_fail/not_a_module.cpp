// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: this class does not model Module: see kerkis/module/module.hpp
#include <kerkis/module/any_module.hpp>

using Space = Kokkos::DefaultHostExecutionSpace;
using Matrix = kerkis::Matrix<double, Space>;
using Context = kerkis::Context<Space>;

/// Hands on what it gets.
struct Same {
  using Element = double;
  using ExecutionSpace = Space;
  using Saved = kerkis::Saved<int, int>;

  std::int64_t input_columns() const { return 1; }
  std::int64_t output_columns() const { return 1; }
  Saved make_saved(std::int64_t) const { return {}; }
#if KERKIS_MISTAKE == 1
  void forwards
#else
  void forward
#endif
      (Context& context, const Matrix& input, const Matrix& output, Saved&) {
    Kokkos::deep_copy(context.execution, output, input);
  }
  void backward_input(Context& context, const Matrix& output_gradient, const Matrix& input_gradient, Saved&) {
    Kokkos::deep_copy(context.execution, input_gradient, output_gradient);
  }
  void backward_weight(Context&, Saved&) {}
  template <class F>
  void for_each_parameter(F&&) {}
};

void wrap() { kerkis::AnyModule<double, Space> any{Same()}; }
