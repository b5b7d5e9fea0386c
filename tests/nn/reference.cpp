// SPDX-License-Identifier: Apache-2.0
// Values of layers against their textbook formulas, dropout by global index, and what is refused.
#include "support.hpp"

#include <numbers>

#include <kerkis/core/error.hpp>
#include <kerkis/nn/attention.hpp>
#include <kerkis/nn/cross_entropy.hpp>
#include <kerkis/nn/dropout.hpp>
#include <kerkis/nn/gelu.hpp>
#include <kerkis/nn/layer_norm.hpp>
#include <kerkis/nn/mlp.hpp>
#include <kerkis/nn/transformer_block.hpp>

using namespace kerkis;
using namespace kerkis::testing;

namespace {

template <class T, class Layer>
Matrix<T, Space> apply(Layer& layer, const Matrix<T, Space>& input, std::int64_t first_sample = 0,
                       Mode mode = Mode::training) {
  Stage stage;
  stage.context.first_sample = first_sample;
  stage.context.mode = mode;
  const auto rows = static_cast<std::int64_t>(input.extent(0));
  const auto output = make_matrix<T, Space>("output", rows, layer.output_columns());
  auto saved = layer.make_saved(rows);
  layer.forward(stage.context, input, output, saved);
  return output;
}

const Parameter<double, Space>& named(auto& layer, const std::string& end) {
  const Parameter<double, Space>* found = nullptr;
  layer.for_each_parameter([&](const auto& parameter) {
    if (parameter.name.ends_with(end)) found = &parameter;
  });
  REQUIRE(found);
  return *found;
}

}  // namespace

TEST_CASE("layer norm") {
  nn::LayerNorm<double, Space> layer("norm", 21);
  bind(layer);
  const auto x = random_matrix<double>(3, 21, 1), y = apply(layer, x);
  for (std::size_t r = 0; r < 3; ++r) {
    double mean = 0, variance = 0;
    for (std::size_t c = 0; c < 21; ++c) mean += x(r, c) / 21;
    for (std::size_t c = 0; c < 21; ++c) variance += (x(r, c) - mean) * (x(r, c) - mean) / 21;
    for (std::size_t c = 0; c < 21; ++c)
      CHECK(y(r, c) == doctest::Approx((x(r, c) - mean) / std::sqrt(variance + 1e-5) * named(layer, "gain").value(c) +
                                       named(layer, "bias").value(c)));
  }
}

TEST_CASE("gelu") {
  nn::Gelu<double, Space> layer(50);
  auto x = make_matrix<double, Space>("x", 1, 50);
  for (std::size_t c = 0; c < 50; ++c) x(0, c) = -12.0 + 0.5 * static_cast<double>(c);
  const auto y = apply(layer, x);
  for (std::size_t c = 0; c < 50; ++c) {
    const double v = x(0, c), u = std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v);
    CHECK(y(0, c) == doctest::Approx(0.5 * v * (1 + std::tanh(u))).epsilon(1e-12).scale(1));
  }
  CHECK(std::isfinite(apply(layer, random_matrix<double>(1, 50, 4))(0, 0)));
}

TEST_CASE("attention") {
  for (const std::int64_t context : {1, 5, 16, 40, 150}) {
    CAPTURE(context);
    const std::size_t length = static_cast<std::size_t>(context), width = 8, heads = 2, d = 4, rows = 2 * length;
    nn::CausalSelfAttention<double, Space> layer("attention", {.width = 8, .heads = 2, .context_length = context});
    bind(layer);
    const auto x = random_matrix<double>(2 * context, 8, 1), y = apply(layer, x);
    const auto &w = named(layer, "qkv.weight").value, &b = named(layer, "qkv.bias").value;
    const auto &wo = named(layer, "out.weight").value, &bo = named(layer, "out.bias").value;
    std::vector<double> qkv(rows * 24), all(rows * width);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < 24; ++c) {
        qkv[r * 24 + c] = b(c);
        for (std::size_t i = 0; i < width; ++i) qkv[r * 24 + c] += x(r, i) * w(c * width + i);
      }
    for (std::size_t s = 0; s < 2; ++s)
      for (std::size_t h = 0; h < heads; ++h)
        for (std::size_t i = 0; i < length; ++i) {
          const auto at = [&](std::size_t row, std::size_t part, std::size_t c) {
            return qkv[(s * length + row) * 24 + part * width + h * d + c];
          };
          std::vector<double> p(i + 1);
          double sum = 0;
          for (std::size_t j = 0; j <= i; ++j) {
            double score = 0;
            for (std::size_t c = 0; c < d; ++c) score += at(i, 0, c) * at(j, 1, c);
            sum += p[j] = std::exp(score / 2);
          }
          for (std::size_t c = 0; c < d; ++c) {
            double value = 0;
            for (std::size_t j = 0; j <= i; ++j) value += p[j] / sum * at(j, 2, c);
            all[(s * length + i) * width + h * d + c] = value;
          }
        }
    double worst = 0;
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < width; ++c) {
        double value = bo(c);
        for (std::size_t i = 0; i < width; ++i) value += all[r * width + i] * wo(c * width + i);
        worst = std::max(worst, std::abs(value - y(r, c)));
      }
    CHECK(worst < 1e-12);
  }
}

TEST_CASE("cross entropy") {
  Stage stage;
  const nn::CrossEntropy<float, Space> loss(3);
  auto logits = make_matrix<float, Space>("logits", 2, 3);
  const float values[] = {1000, 0, -1000, 1, 2, 3};  // no overflow
  std::copy(values, values + 6, logits.data());
  const Kokkos::View<std::int32_t*, Kokkos::HostSpace> targets("targets", 2);
  targets(0) = 1;
  targets(1) = 0;
  const LossSum sum = loss.forward_backward(stage.context, logits, targets);
  CHECK(sum.weight == 2);
  CHECK(sum.sum == doctest::Approx(1000 + std::log(std::exp(0.0) + std::exp(1.0) + std::exp(2.0))).epsilon(1e-6));
  CHECK(logits(0, 0) == 1.0f);
  CHECK(logits(0, 1) == -1.0f);
  CHECK(logits(1, 2) == doctest::Approx(std::exp(2.0) / (1 + std::exp(1.0) + std::exp(2.0))).epsilon(1e-6));
  CHECK(loss.forward(stage.context, first_rows(logits, 0), Kokkos::View<std::int32_t*, Kokkos::HostSpace>()).weight ==
        0);
  logits(0, 0) = NAN;
  CHECK(std::isnan(loss.forward(stage.context, logits, targets).sum));
}

TEST_CASE("dropout") {
  const nn::DropoutOptions options{.rate = 0.25, .columns = 50, .rows_per_sample = 4};
  nn::Dropout<float, Space> layer("dropout", options), other("another", options);
  auto ones = make_matrix<float, Space>("ones", 400, 50);
  Kokkos::deep_copy(ones, 1.0f);
  const auto y = apply(layer, ones);
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) {
    sum += static_cast<double>(y.data()[i]);
    if (y.data()[i] != 0) CHECK(y.data()[i] == 1 / 0.75f);
  }
  CHECK(sum / 20000 == doctest::Approx(1).epsilon(0.02));
  // The same elements for every cut into microbatches and into columns.
  const auto later = apply(layer, first_rows(ones, 12), 7);
  for (std::size_t i = 0; i < later.size(); ++i) CHECK(later.data()[i] == y.data()[7 * 4 * 50 + i]);
  nn::Dropout<float, Space> right(
      "dropout", {.rate = 0.25, .columns = 21, .rows_per_sample = 4, .global_columns = 50, .first_column = 29});
  const auto ones_right = random_matrix<float>(8, 21, 1);
  Kokkos::deep_copy(ones_right, 1.0f);
  const auto part = apply(right, ones_right);
  for (std::size_t r = 0; r < 8; ++r)
    for (std::size_t c = 0; c < 21; ++c) CHECK(part(r, c) == y(r, 29 + c));
  const auto elsewhere = apply(other, ones), still = apply(layer, ones, 0, Mode::evaluation);
  CHECK_FALSE(std::equal(y.data(), y.data() + y.size(), elsewhere.data()));
  CHECK(std::equal(ones.data(), ones.data() + ones.size(), still.data()));
}

TEST_CASE("a block does not care how samples are cut into microbatches") {
  nn::TransformerBlock<double, Space> layer(
      "blocks.0", {.width = 12, .heads = 3, .context_length = 6, .layers = 2, .dropout = 0.3});
  bind(layer);
  const auto x = random_matrix<double>(24, 12, 1), y = apply(layer, x, 10);
  const auto late = Matrix<double, Space>(x.data() + 6 * 12, 12, 12);
  const auto part = apply(layer, late, 11);
  double worst = 0;
  for (std::size_t i = 0; i < part.size(); ++i)
    worst = std::max(worst, std::abs(part.data()[i] - y.data()[6 * 12 + i]));
  CHECK(worst < 1e-13);
}

TEST_CASE("bad input is refused with the numbers") {
  using Attention = nn::CausalSelfAttention<float, Space>;
  CHECK_THROWS_WITH_AS(Attention("blocks.2.attention", {.width = 10, .heads = 3}),
                       "blocks.2.attention: a width of 10 cannot be cut into 3 heads", InputError);
  CHECK_THROWS_AS(Attention("a", {.width = 12, .heads = 0}), InputError);
  CHECK_THROWS_AS(Attention("a", {.width = 12, .heads = 3, .context_length = 4, .dropout = 1}), InputError);
  CHECK_THROWS_AS((nn::Linear<float, Space>("linear", 0, 3)), InputError);
  CHECK_THROWS_AS((nn::Dropout<float, Space>("dropout", {.rate = -0.1, .columns = 3})), InputError);
  Attention attention("attention", {.width = 12, .heads = 3, .context_length = 4});
  bind(attention);
  CHECK_THROWS_WITH_AS(apply(attention, random_matrix<float>(6, 12, 1)), "attention over sequences of 4 got 6 rows",
                       InputError);
}
