// SPDX-License-Identifier: Apache-2.0
// Every layer spread over the tensor axis computes what one rank computes alone: values, input gradients, slices of
// gradients.
#include "support.hpp"

#include <mpi.h>

#include <kerkis/nn/attention.hpp>
#include <kerkis/nn/cross_entropy.hpp>
#include <kerkis/nn/embedding.hpp>
#include <kerkis/nn/head.hpp>
#include <kerkis/nn/mlp.hpp>
#include <kerkis/nn/transformer_block.hpp>

using namespace kerkis;
using namespace kerkis::testing;

namespace {

template <class T>
void check_close(const std::string& what, const T* a, const T* b, std::size_t count) {
  double worst = 0;
  for (std::size_t i = 0; i < count; ++i)
    worst = std::max(worst, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  const double tolerance = (sizeof(T) == 8 ? 1e-12 : 1e-5) * (1 + largest(b, count));
  CHECK_MESSAGE(worst < tolerance, what << ": off by " << worst);
}

/// The columns of `whole` that begin at `begin`.
template <class T>
Matrix<T, Space> some_columns(const Matrix<T, Space>& whole, std::int64_t begin, std::int64_t count) {
  const auto part = make_matrix<T, Space>("part", static_cast<std::int64_t>(whole.extent(0)), count);
  for (std::size_t r = 0; r < part.extent(0); ++r)
    for (std::size_t c = 0; c < part.extent(1); ++c) part(r, c) = whole(r, static_cast<std::size_t>(begin) + c);
  return part;
}

/// Each gradient of `split` is its slice of the same parameter's in `whole`.
template <class T, class Layer>
void check_slices(Layer& split, Layer& whole) {
  std::vector<const Parameter<T, Space>*> all;
  whole.for_each_parameter([&](const auto& parameter) { all.push_back(&parameter); });
  std::size_t index = 0;
  split.for_each_parameter([&](const auto& parameter) {
    const auto& reference = *all.at(index++);
    CHECK(parameter.name == reference.name);
    std::vector<T> slice(static_cast<std::size_t>(parameter.size()));
    for (std::size_t i = 0; i < slice.size(); ++i)
      slice[i] = reference.gradient(static_cast<std::size_t>(parameter.global_index(static_cast<std::int64_t>(i))));
    check_close(parameter.name, parameter.gradient.data(), slice.data(), slice.size());
  });
  CHECK(index == all.size());
}

struct Pass {
  Stage stage;
  std::int64_t rows;

  template <class T, class Layer>
  void run(Layer& layer, const Matrix<T, Space>& input, const Matrix<T, Space>& output,
           const Matrix<T, Space>& output_gradient, const Matrix<T, Space>& input_gradient) {
    auto saved = layer.make_saved(rows);
    stage.context.first_sample = 2;
    layer.forward(stage.context, input, output, saved);
    layer.backward_input(stage.context, output_gradient, input_gradient, saved);
    layer.backward_weight(stage.context, saved);
  }
};

/// A layer whose input and output are whole on every rank.
template <class T, class Layer>
void compare(Layer split, Layer whole, std::int64_t rows) {
  bind(split);
  bind(whole);
  Pass pass{{}, rows};
  const auto matrix = [rows](std::int64_t columns) { return make_matrix<T, Space>("m", rows, columns); };
  const auto input = random_matrix<T>(rows, whole.input_columns(), 1),
             gradient = random_matrix<T>(rows, whole.output_columns(), 2);
  const auto out1 = matrix(whole.output_columns()), out2 = matrix(whole.output_columns());
  const auto in1 = matrix(whole.input_columns()), in2 = matrix(whole.input_columns());
  pass.run<T>(split, input, out1, gradient, in1);
  pass.run<T>(whole, input, out2, gradient, in2);
  check_close("output", out1.data(), out2.data(), out1.size());
  check_close("input gradient", in1.data(), in2.data(), in1.size());
  check_slices<T>(split, whole);
}

template <class T>
void compare_all(const Communicator& tensor) {
  using Mlp = nn::Mlp<T, Space>;
  using Attention = nn::CausalSelfAttention<T, Space>;
  using Block = nn::TransformerBlock<T, Space>;
  for (const std::int64_t hidden : {12, 7, 1})
    compare<T>(Mlp("mlp", {.width = 5, .hidden = hidden}, tensor), Mlp("mlp", {.width = 5, .hidden = hidden}), 6);
  for (const std::int64_t heads : {1, 3, 4})
    for (const double dropout : {0.0, 0.2}) {
      const nn::AttentionOptions options{.width = 12, .heads = heads, .context_length = 5, .dropout = dropout};
      compare<T>(Attention("attention", options, tensor), Attention("attention", options), 15);
      const nn::BlockOptions block{.width = 12, .heads = heads, .context_length = 5, .layers = 2, .dropout = dropout};
      compare<T>(Block("blocks.1", block, tensor), Block("blocks.1", block), 10);
    }
}

constexpr std::int64_t rows = 12, width = 6;

/// The ends of a language model with tied weights.
struct Model {
  nn::Embedding<double, Space> embedding;
  nn::Head<double, Space> head;
  nn::CrossEntropy<double, Space> loss;
  LossSum result, alone;
  Matrix<double, Space> output, hidden_gradient, logits;

  Model(std::int64_t vocabulary, const Communicator& tensor)
      : embedding("embedding", {.vocabulary = vocabulary, .width = width, .context_length = 4}, tensor),
        head("head", {.width = width, .vocabulary = vocabulary}, embedding.table(), tensor), loss(vocabulary, tensor) {}
  template <class F>
  void for_each_parameter(F&& f) {
    embedding.for_each_parameter(f);
    head.for_each_parameter(f);
  }
  void run(nn::Embedding<double, Space>::Tokens inputs, nn::Embedding<double, Space>::Tokens outputs) {
    Stage stage;
    bind(*this);
    output = make_matrix<double, Space>("m", rows, width);
    hidden_gradient = make_matrix<double, Space>("m", rows, width);
    auto saved = head.make_saved(rows);
    logits = head.logits(saved, rows);
    embedding.forward(stage.context, inputs, output);
    head.forward(stage.context, output, logits, saved);
    alone = loss.forward(stage.context, logits, outputs);
    result = loss.forward_backward(stage.context, logits, outputs);
    head.backward_input(stage.context, logits, hidden_gradient, saved);
    head.backward_weight(stage.context, saved);
    embedding.backward(stage.context, inputs, hidden_gradient);
    const auto kept = make_matrix<double, Space>("logits", rows, head.output_columns());
    Kokkos::deep_copy(kept, logits);
    logits = kept;
  }
};

}  // namespace

TEST_CASE("attention, mlp and block") {
  const Communicator world(MPI_COMM_WORLD);
  compare_all<double>(world);
  compare_all<float>(world);
}

TEST_CASE("column-parallel linear") {
  const Communicator world(MPI_COMM_WORLD);
  nn::Linear<double, Space> split("linear", 6, 7, {.split = nn::Split::output}, world), whole("linear", 6, 7);
  bind(split);
  bind(whole);
  Pass pass{{}, 4};
  const Range share = partition(7, world.size(), world.rank());
  const auto input = random_matrix<double>(4, 6, 1), gradient = random_matrix<double>(4, 7, 2);
  const auto out1 = make_matrix<double, Space>("m", 4, share.size()), out2 = make_matrix<double, Space>("m", 4, 7);
  const auto in1 = make_matrix<double, Space>("m", 4, 6), in2 = make_matrix<double, Space>("m", 4, 6);
  pass.run<double>(split, input, out1, some_columns(gradient, share.begin, share.size()), in1);
  pass.run<double>(whole, input, out2, gradient, in2);
  check_close("output", out1.data(), some_columns(out2, share.begin, share.size()).data(), out1.size());
  check_close("input gradient", in1.data(), in2.data(), in1.size());
  check_slices<double>(split, whole);
}

TEST_CASE("row-parallel linear") {
  const Communicator world(MPI_COMM_WORLD);
  nn::Linear<double, Space> split("linear", 7, 5, {.split = nn::Split::input}, world), whole("linear", 7, 5);
  bind(split);
  bind(whole);
  Pass pass{{}, 4};
  const Range share = partition(7, world.size(), world.rank());
  const auto input = random_matrix<double>(4, 7, 1), gradient = random_matrix<double>(4, 5, 2);
  const auto out1 = make_matrix<double, Space>("m", 4, 5), out2 = make_matrix<double, Space>("m", 4, 5);
  const auto in1 = make_matrix<double, Space>("m", 4, share.size()), in2 = make_matrix<double, Space>("m", 4, 7);
  pass.run<double>(split, some_columns(input, share.begin, share.size()), out1, gradient, in1);
  pass.run<double>(whole, input, out2, gradient, in2);
  check_close("output", out1.data(), out2.data(), out1.size());
  check_close("input gradient", in1.data(), some_columns(in2, share.begin, share.size()).data(), in1.size());
  check_slices<double>(split, whole);
}

TEST_CASE("embedding, tied head and loss over an uneven vocabulary") {
  const Communicator world(MPI_COMM_WORLD);
  for (const std::int64_t vocabulary : {257, 2}) {
    CAPTURE(vocabulary);
    const Kokkos::View<std::int32_t*, Kokkos::HostSpace> tokens("tokens", rows), targets("targets", rows);
    for (std::size_t i = 0; i < rows; ++i) {
      tokens(i) = static_cast<std::int32_t>(static_cast<std::int64_t>(1 + 97 * i) % vocabulary);
      targets(i) = i % 5 == 3 ? -100 : static_cast<std::int32_t>(static_cast<std::int64_t>(60 * i) % vocabulary);
    }
    Model split(vocabulary, world), whole(vocabulary, {});
    split.run(tokens, targets);
    whole.run(tokens, targets);
    CHECK(split.result.weight == 10);
    CHECK(split.result.sum == doctest::Approx(whole.result.sum).epsilon(1e-13));
    CHECK(split.alone.sum == doctest::Approx(whole.result.sum).epsilon(1e-13));
    check_close("embedded", split.output.data(), whole.output.data(), split.output.size());
    check_close("hidden gradient", split.hidden_gradient.data(), whole.hidden_gradient.data(),
                split.hidden_gradient.size());
    const Range share = partition(vocabulary, world.size(), world.rank());
    check_close("logits", split.logits.data(), some_columns(whole.logits, share.begin, share.size()).data(),
                split.logits.size());
    check_slices<double>(split, whole);
  }
}
