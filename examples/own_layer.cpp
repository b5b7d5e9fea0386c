// SPDX-License-Identifier: Apache-2.0
// A layer of your own: any class with the members that kerkis/module/module.hpp lists. Its gradients are compared with
// differences of the loss. One rank is enough: run it without mpiexec. own_stage puts such modules in a pipeline.

#include <cmath>
#include <cstdio>
#include <kerkis/comm/environment.hpp>
#include <kerkis/module/module.hpp>
#include <kerkis/module/parameter_store.hpp>

namespace kk = kerkis;
using Space = Kokkos::DefaultHostExecutionSpace;  // plain loops stand for your kernels
using Matrix = kk::Matrix<double, Space>;
using Context = kk::Context<Space>;

/// y = sin(w x) with one w.
struct Wave {
  using Element = double;
  using ExecutionSpace = Space;
  struct Kept {  ///< until backward_weight
    Matrix input, slope;
  };
  using Saved = kk::Saved<int, Kept>;  ///< of one microbatch; nothing (an int) is kept until backward_input only

  std::int64_t input_columns() const { return 1; }
  std::int64_t output_columns() const { return 1; }
  Saved make_saved(std::int64_t rows) const { return {0, {{}, Matrix("slope", rows, 1)}}; }
  void for_each_parameter(auto&& f) { f(w); }

  void forward(Context&, const Matrix& input, const Matrix& output, Saved& saved) {
    saved.weight.input = input;  // the caller keeps it until backward_weight
    for (std::size_t i = 0; i < input.size(); ++i) output(i, 0) = std::sin(w.value(0) * input(i, 0));
  }
  void backward_input(Context&, const Matrix& output_gradient, const Matrix& input_gradient, Saved& saved) {
    const auto& [input, slope] = saved.weight;
    for (std::size_t i = 0; i < input.size(); ++i) {
      slope(i, 0) = output_gradient(i, 0) * std::cos(w.value(0) * input(i, 0));
      input_gradient(i, 0) = slope(i, 0) * w.value(0);
    }
  }
  void backward_weight(Context&, Saved& saved) {  // adds: gradients are sums over rows and microbatches
    const auto& [input, slope] = saved.weight;
    for (std::size_t i = 0; i < input.size(); ++i) w.gradient(0) += slope(i, 0) * input(i, 0);
  }

  kk::Parameter<double, Space> w = kk::Parameter<double, Space>::whole("w", {1}, kk::Initial::normal(1), true);
};
static_assert(kk::Module<Wave>);

void example() {
  const kk::Communicator alone;  // this rank: no MPI
  kk::Workspace<Space> workspace;
  Context context{Space(), workspace, alone};
  Wave wave;
  kk::ParameterStore<double, Space>(wave, 0).initialise(1);  // gives parameters memory and values
  const Matrix x("x", 4, 1), y("y", 4, 1), ones("ones", 4, 1), x_gradient("dx", 4, 1);
  Kokkos::deep_copy(ones, 1);
  for (int i = 0; i < 4; ++i) x(i, 0) = i - 1.5;
  Wave::Saved saved = wave.make_saved(4);
  const auto loss = [&] {  // the sum of y
    wave.forward(context, x, y, saved);
    return y(0, 0) + y(1, 0) + y(2, 0) + y(3, 0);
  };
  loss();
  wave.backward_input(context, ones, x_gradient, saved);
  wave.backward_weight(context, saved);
  double worst = 0;
  const auto compare = [&](double& value, double gradient) {
    const double right = (value += 1e-5, loss()), left = (value -= 2e-5, loss());
    value += 1e-5;
    worst = std::fmax(worst, std::abs((right - left) / 2e-5 - gradient));
  };
  for (int i = 0; i < 4; ++i) compare(x(i, 0), x_gradient(i, 0));
  compare(wave.w.value(0), wave.w.gradient(0));
  if (worst > 1e-9) throw kk::Error(kk::message("a gradient is wrong by ", worst));
  std::printf("5 gradients differ from differences of the loss by %.1e at most\n", worst);
}

int main(int argc, char** argv) { return kk::run(argc, argv, example); }
