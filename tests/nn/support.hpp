// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include <kerkis/core/philox.hpp>
#include <kerkis/module/module.hpp>

namespace kerkis::testing {

using Space = Kokkos::DefaultHostExecutionSpace;

/// Everything a context points to.
struct Stage {
  Workspace<Space> workspace;
  Communicator alone;
  Context<Space> context{Space{}, workspace, alone, 1234, 5, 0, 0, Mode::training};
};

/// A matrix of standard normals; the same for the same stream.
template <class T>
Matrix<T, Space> random_matrix(std::int64_t rows, std::int64_t columns, std::uint32_t stream) {
  auto matrix = make_matrix<T, Space>("random", rows, columns);
  const Random random(99, stream);
  for (std::size_t i = 0; i < matrix.size(); ++i) matrix.data()[i] = static_cast<T>(random.normal(i));
  return matrix;
}

/// Gives the parameters memory and values that differ everywhere and do not depend on the split; the gradients begin at
/// zero.
template <class Layer>
void bind(Layer& layer, double deviation = 0.5) {
  layer.for_each_parameter([deviation](auto& parameter) {
    using Parameter = std::remove_cvref_t<decltype(parameter)>;
    using T = typename decltype(Parameter::value)::value_type;
    const auto size = static_cast<std::size_t>(parameter.size());
    parameter.value = Vector<T, Space>(parameter.name, size);
    parameter.gradient = Vector<T, Space>(parameter.name, size);
    const Random random(7, stream_of(parameter.name));
    for (std::size_t i = 0; i < size; ++i)
      parameter.value(i) = static_cast<T>(
          parameter.initial.value * (parameter.initial.kind == Initial::Kind::constant) +
          deviation * random.normal(static_cast<std::uint64_t>(parameter.global_index(static_cast<std::int64_t>(i)))));
  });
}

template <class T>
double dot(const Matrix<T, Space>& a, const Matrix<T, Space>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a.data()[i]) * static_cast<double>(b.data()[i]);
  return sum;
}

template <class T>
double largest(const T* values, std::size_t count) {
  double most = 0;
  for (std::size_t i = 0; i < count; ++i) most = std::max(most, std::abs(static_cast<double>(values[i])));
  return most;
}

/// Fails unless the analytic derivative and the central difference of `loss` by x[i] agree, for at most `samples` i.
template <class Loss>
void check_derivative(const std::string& what, double* x, const double* gradient, std::size_t count, Loss&& loss,
                      std::size_t samples = 60) {
  const double scale = largest(gradient, count) + 1e-3;
  const std::size_t step = count / samples + 1;
  double worst = 0;
  for (std::size_t i = 0; i < count; i += step) {
    const double kept = x[i], h = 1e-5;
    x[i] = kept + h;
    const double above = loss();
    x[i] = kept - h;
    const double below = loss();
    x[i] = kept;
    worst = std::max(worst, std::abs((above - below) / (2 * h) - gradient[i]));
  }
  CHECK_MESSAGE(worst < 1e-7 * scale, what << ": off by " << worst << " with gradients up to " << scale);
}

/// Finite differences of sum(output ∘ random) by the input and all parameters, in double. The buffers are larger than
/// needed and the output gradient is destroyed between the passes, as the contract of Module allows.
template <class Layer>
void check_gradients(Layer& layer, std::int64_t rows) {
  bind(layer);
  Stage stage;
  const auto input = random_matrix<double>(rows, layer.input_columns(), 1);
  const auto weights = random_matrix<double>(rows, layer.output_columns(), 2);
  const auto output = make_matrix<double, Space>("output", rows, layer.output_columns());
  const auto input_gradient = make_matrix<double, Space>("input_gradient", rows, layer.input_columns());
  const auto output_gradient = make_matrix<double, Space>("output_gradient", rows, layer.output_columns());
  auto saved = layer.make_saved(rows + 3);
  auto spare = layer.make_saved(rows);
  stage.context.first_sample = 3;
  const auto loss = [&] {
    layer.forward(stage.context, input, output, spare);
    return dot(output, weights);
  };
  layer.forward(stage.context, input, output, saved);
  Kokkos::deep_copy(output_gradient, weights);
  Kokkos::deep_copy(input_gradient, 1e9);
  stage.context.first_sample = 77;  // of the forward pass counts
  layer.backward_input(stage.context, output_gradient, input_gradient, saved);
  Kokkos::deep_copy(output_gradient, 1e9);
  saved.input = {};
  layer.backward_weight(stage.context, saved);
  stage.context.first_sample = 3;
  check_derivative("input", input.data(), input_gradient.data(), input.size(), loss);
  layer.for_each_parameter([&](auto& parameter) {
    check_derivative(parameter.name, parameter.value.data(), parameter.gradient.data(), parameter.value.size(), loss);
  });
  // No rows: nothing happens.
  std::vector<std::vector<double>> kept;
  const auto copy = [](const auto& view) { return std::vector<double>(view.data(), view.data() + view.size()); };
  layer.for_each_parameter([&](auto& parameter) { kept.push_back(copy(parameter.gradient)); });
  layer.forward(stage.context, first_rows(input, 0), first_rows(output, 0), spare);
  layer.backward_input(stage.context, first_rows(weights, 0), first_rows(input_gradient, 0), spare);
  layer.backward_weight(stage.context, spare);
  std::size_t index = 0;
  layer.for_each_parameter([&](auto& parameter) { CHECK(copy(parameter.gradient) == kept[index++]); });
}

}  // namespace kerkis::testing
