// SPDX-License-Identifier: Apache-2.0
// Finite differences of every layer, in double.
#include "support.hpp"

#include <kerkis/nn/attention.hpp>
#include <kerkis/nn/cross_entropy.hpp>
#include <kerkis/nn/dropout.hpp>
#include <kerkis/nn/embedding.hpp>
#include <kerkis/nn/gelu.hpp>
#include <kerkis/nn/head.hpp>
#include <kerkis/nn/layer_norm.hpp>
#include <kerkis/nn/linear.hpp>
#include <kerkis/nn/mlp.hpp>
#include <kerkis/nn/transformer_block.hpp>

using namespace kerkis;
using namespace kerkis::testing;

TEST_CASE("linear") {
  nn::Linear<double, Space> layer("linear", 7, 5);
  check_gradients(layer, 6);
  nn::Linear<double, Space> plain("linear", 130, 150, {.bias = false});  // beyond a block of columns
  check_gradients(plain, 9);
}

TEST_CASE("layer norm") {
  nn::LayerNorm<double, Space> layer("norm", 37);
  check_gradients(layer, 5);
  nn::LayerNorm<double, Space> wide("norm", 300);
  check_gradients(wide, 2);
}

TEST_CASE("gelu") {
  nn::Gelu<double, Space> layer(19);
  check_gradients(layer, 4);
}

TEST_CASE("dropout") {
  nn::Dropout<double, Space> layer(
      "dropout", {.rate = 0.4, .columns = 11, .rows_per_sample = 3, .global_columns = 30, .first_column = 6});
  check_gradients(layer, 6);
}

TEST_CASE("attention") {
  for (const double dropout : {0.0, 0.3}) {
    CAPTURE(dropout);
    nn::CausalSelfAttention<double, Space> tiny("attention",
                                                {.width = 6, .heads = 2, .context_length = 5, .dropout = dropout});
    check_gradients(tiny, 15);
    nn::CausalSelfAttention<double, Space> lanes("attention",
                                                 {.width = 24, .heads = 3, .context_length = 16, .dropout = dropout});
    check_gradients(lanes, 32);
    // Several blocks of queries, the last one short.
    nn::CausalSelfAttention<double, Space> blocks("attention",
                                                  {.width = 12, .heads = 1, .context_length = 75, .dropout = dropout});
    check_gradients(blocks, 75);
  }
}

TEST_CASE("attention through the BLAS") {
  nn::CausalSelfAttention<double, Space> layer("attention",
                                               {.width = 4, .heads = 1, .context_length = 300, .dropout = 0.1});
  check_gradients(layer, 300);
}

TEST_CASE("mlp") {
  nn::Mlp<double, Space> layer("mlp", {.width = 6});
  check_gradients(layer, 7);
  nn::Mlp<double, Space> narrow("mlp", {.width = 6, .hidden = 5});
  check_gradients(narrow, 7);
}

TEST_CASE("transformer block") {
  for (const double dropout : {0.0, 0.3}) {
    CAPTURE(dropout);
    nn::TransformerBlock<double, Space> layer(
        "blocks.0", {.width = 12, .heads = 3, .context_length = 6, .layers = 2, .dropout = dropout});
    check_gradients(layer, 18);
  }
}

TEST_CASE("head") {
  nn::Head<double, Space> layer("head", {.width = 10, .vocabulary = 21});
  check_gradients(layer, 6);
}

TEST_CASE("embedding") {
  const std::int64_t rows = 8;
  Stage stage;
  nn::Embedding<double, Space> layer("embedding", {.vocabulary = 9, .width = 5, .context_length = 4});
  bind(layer);
  const Kokkos::View<std::int32_t*, Kokkos::HostSpace> tokens("tokens", rows);
  for (std::size_t i = 0; i < rows; ++i) tokens(i) = static_cast<std::int32_t>((5 * i * i) % 9);
  const auto weights = random_matrix<double>(rows, 5, 2);
  const auto output = make_matrix<double, Space>("output", rows, 5);
  const auto loss = [&] {
    layer.forward(stage.context, tokens, output);
    return dot(output, weights);
  };
  loss();
  layer.backward(stage.context, tokens, weights);
  layer.for_each_parameter([&](auto& parameter) {
    check_derivative(parameter.name, parameter.value.data(), parameter.gradient.data(), parameter.value.size(), loss);
  });
}

TEST_CASE("cross entropy") {
  const std::int64_t rows = 5, vocabulary = 37;
  Stage stage;
  const nn::CrossEntropy<double, Space> layer(vocabulary);
  const Kokkos::View<std::int32_t*, Kokkos::HostSpace> targets("targets", rows);
  for (std::size_t i = 0; i < rows; ++i) targets(i) = i == 2 ? -1 : static_cast<std::int32_t>((11 * i) % 37);
  const auto logits = random_matrix<double>(rows, vocabulary, 3);
  const auto gradient = make_matrix<double, Space>("gradient", rows, vocabulary);
  Kokkos::deep_copy(gradient, logits);
  const LossSum loss = layer.forward_backward(stage.context, gradient, targets);
  CHECK(loss.weight == 4);
  CHECK(loss.sum == doctest::Approx(layer.forward(stage.context, logits, targets).sum).epsilon(1e-14));
  check_derivative(
      "logits", logits.data(), gradient.data(), logits.size(),
      [&] { return layer.forward(stage.context, logits, targets).sum; }, 1000);
}
