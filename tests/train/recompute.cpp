// SPDX-License-Identifier: Apache-2.0
// A stage that runs its forward again gives the same bits from less memory.

#include <doctest/doctest.h>

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <initializer_list>
#include <string_view>
#include <vector>

#include <kerkis/module/parameter_store.hpp>
#include <kerkis/nn/gpt_stage.hpp>

namespace kk = kerkis;
using Space = Kokkos::DefaultHostExecutionSpace;
using Stage = kk::nn::GptStage<double, Space>;

namespace {

std::uint64_t bytes = 0;
void count(const Kokkos_Profiling_SpaceHandle, const char* label, const void*, std::uint64_t size) {
  if (std::string_view(label) != "kerkis::workspace") bytes += size;
}
/// The bytes that `work` allocates, but for scratch.
template <class Work>
std::uint64_t allocated(Work&& work) {
  bytes = 0;
  Kokkos::Tools::Experimental::set_allocate_data_callback(count);
  work();
  Kokkos::Tools::Experimental::set_allocate_data_callback(nullptr);
  return bytes;
}

constexpr kk::nn::GptConfig config{
    .layers = 5, .heads = 2, .width = 8, .context = 4, .vocabulary = 11, .dropout = 0.2, .tied = false};
constexpr std::int64_t rows = 3 * config.context;

struct Place {
  bool first, last;
  std::int64_t layers;
};

/// Losses and gradients of three microbatches in flight, fused or split.
struct Result {
  std::vector<double> losses, gradients, input_gradients;
  friend bool operator==(const Result&, const Result&) = default;
};

Result run(const Place& place, kk::Recomputation recompute, bool split) {
  Stage stage(config, {0, place.layers}, place.first, place.last, {}, {}, recompute);
  const kk::ParameterStore<double, Space> store(stage, 0);
  store.initialise(1);
  const auto random = [](const char* name, std::size_t m) {
    const auto matrix = kk::make_matrix<double, Space>(name, rows, config.width);
    const kk::Random numbers(5, kk::stream_of(name), static_cast<std::uint32_t>(m));
    for (std::size_t i = 0; i < matrix.size(); ++i) matrix.data()[i] = numbers.normal(i);
    return matrix;
  };
  kk::Workspace<Space> workspace;
  const kk::Communicator alone;
  Kokkos::View<std::int32_t*, Space> tokens("tokens", static_cast<std::size_t>(rows));
  for (std::size_t i = 0; i < tokens.extent(0); ++i) tokens(i) = static_cast<std::int32_t>(i * i % 11);
  const auto output = kk::make_matrix<double, Space>("output", rows, config.width),
             gradient = kk::make_matrix<double, Space>("gradient", rows, config.width);
  Result result;
  std::vector<Stage::Saved> saved;
  std::vector<decltype(random("", 0))> inputs;
  const auto context = [&](std::size_t m) {
    return kk::Context<Space>{Space(),           workspace, alone, 1, 2, static_cast<int>(m), 3 * static_cast<int>(m),
                              kk::Mode::training};
  };
  // The second microbatch is shorter than the others.
  const auto part = [&](std::size_t m) {
    const auto count = static_cast<std::size_t>(m == 1 ? config.context : rows);
    using Tokens = kk::TokenBatch<Space>::Tokens;
    return kk::TokenBatch<Space>{Tokens(tokens.data(), count), Tokens(tokens.data(), count), 3 * static_cast<int>(m)};
  };
  const auto cut = [&](const auto& matrix, std::size_t m) { return kk::first_rows(matrix, part(m).rows()); };
  for (std::size_t m = 0; m < 3; ++m) {
    saved.push_back(stage.make_saved(rows));
    inputs.push_back(random("input", m));
    auto its = context(m);
    result.losses.push_back(stage.forward(its, part(m), cut(inputs[m], m), cut(output, m), saved[m]).sum);
  }
  const auto keep = [&](std::size_t m) {
    if (!place.first)
      for (std::int64_t i = 0; i < part(m).rows() * config.width; ++i)
        result.input_gradients.push_back(gradient.data()[i]);
  };
  for (std::size_t m = 0; m < 3; ++m) {
    auto its = context(m);
    if (split)
      stage.backward_input(its, part(m), cut(random("output gradient", m), m), cut(gradient, m), saved[m]);
    else
      stage.backward(its, part(m), cut(random("output gradient", m), m), cut(gradient, m), saved[m],
                     [](const auto&) {});
    keep(m);
  }
  for (std::size_t m = 0; split && m < 3; ++m) {
    auto its = context(m);
    stage.backward_weight(its, part(m), saved[m], [](const auto&) {});
  }
  for (std::size_t i = 0; i < store.gradients().extent(0); ++i) result.gradients.push_back(store.gradients()(i));
  return result;
}

}  // namespace

TEST_CASE("the same bits") {
  for (const Place& place : {Place{true, false, 3},
                             {false, false, 5},
                             {false, true, 4},
                             {true, true, 5},
                             {true, false, 0},
                             {false, false, 0},
                             {false, true, 0},
                             {true, true, 0}})
    for (const bool split : {false, true}) {
      const Result expected = run(place, kk::Recomputation::none(), split);
      CHECK(expected.gradients.size() + expected.input_gradients.size() > 0);
      for (const kk::Recomputation recompute : {kk::Recomputation::full(), kk::Recomputation::every(1),
                                                kk::Recomputation::every(2), kk::Recomputation::every(4)})
        CHECK_MESSAGE(run(place, recompute, split) == expected, place.first, place.last, place.layers, split,
                      recompute.segment);
    }
}

TEST_CASE("a microbatch keeps the inputs of its segments") {
  const std::uint64_t hidden = rows * config.width * sizeof(double);
  Stage whole(config, {0, 5}, false, false, {}, {});
  const kk::ParameterStore<double, Space> parameters(whole, 0);
  std::vector<Stage::Saved> saved;
  const std::uint64_t all = allocated([&] { saved.push_back(whole.make_saved(rows)); });
  CHECK(all > 5 * 16 * hidden);
  CHECK(allocated([&] { saved.push_back(whole.make_saved(rows)); }) == all);

  for (const std::int64_t k : {1, 2, 3, 5}) {
    Stage stage(config, {0, 5}, false, false, {}, {}, kk::Recomputation::every(k));
    const kk::ParameterStore<double, Space> store(stage, 0);
    const std::int64_t kept = (5 + k - 1) / k - 1;  // the first input is the caller's
    const std::uint64_t first = allocated([&] { saved.push_back(stage.make_saved(rows)); });
    CHECK(allocated([&] { saved.push_back(stage.make_saved(rows)); }) == static_cast<std::uint64_t>(kept) * hidden);
    // One segment works at a time, of k blocks with the inputs of k - 1.
    const std::uint64_t block = (all - 4 * hidden) / 5;
    CHECK(first == static_cast<std::uint64_t>(kept + k - 1) * hidden + static_cast<std::uint64_t>(k) * block);
  }

  // First and last: embedding and head go with their segments.
  Stage stage(config, {0, 5}, true, true, {}, {}, kk::Recomputation::full());
  const kk::ParameterStore<double, Space> store(stage, 0);
  saved.push_back(stage.make_saved(rows));
  CHECK(allocated([&] { saved.push_back(stage.make_saved(rows)); }) == 0);
}
