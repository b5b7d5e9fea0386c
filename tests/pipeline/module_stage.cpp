// SPDX-License-Identifier: Apache-2.0
// Modules of any types, a user's and the library's, in sequence on the stages of any schedule.

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <kerkis/core/partition.hpp>
#include <kerkis/module/parameter_store.hpp>
#include <kerkis/nn/linear.hpp>
#include <kerkis/pipeline/executor.hpp>
#include <kerkis/pipeline/module_stage.hpp>
#include <kerkis/schedule/registry.hpp>

namespace kk = kerkis;
using Space = Kokkos::DefaultHostExecutionSpace;
using View = kk::Matrix<double, Space>;

namespace {

/// Numbers in, numbers wanted out.
struct Batch {
  View input, wanted;
  std::int64_t first_sample = 0;
  std::int64_t rows() const { return static_cast<std::int64_t>(input.extent(0)); }
};

struct SquaredError {
  kk::LossSum operator()(kk::Context<Space>&, const Batch& batch, const View& output, const View& gradient) const {
    double sum = 0;
    for (std::size_t r = 0; r < output.extent(0); ++r)
      for (std::size_t c = 0; c < output.extent(1); ++c) {
        const double error = output(r, c) - batch.wanted(r, c);
        sum += error * error;
        if (gradient.data() != nullptr) gradient(r, c) = 2 * error;
      }
    return {sum, static_cast<double>(output.extent(0))};
  }
};

/// A user's module without parameters: tanh. Its output is needed until backward_input only.
struct Bend {
  using Element = double;
  using ExecutionSpace = Space;
  using Saved = kk::Saved<View, std::tuple<>>;
  std::int64_t columns = 0;

  std::int64_t input_columns() const { return columns; }
  std::int64_t output_columns() const { return columns; }
  Saved make_saved(std::int64_t rows) const {
    Saved saved;
    saved.input = kk::make_matrix<double, Space>("bend", rows, columns);
    return saved;
  }
  void forward(kk::Context<Space>&, const View& input, const View& output, Saved& saved) const {
    for (std::size_t r = 0; r < input.extent(0); ++r)
      for (std::size_t c = 0; c < input.extent(1); ++c) saved.input(r, c) = output(r, c) = std::tanh(input(r, c));
  }
  void backward_input(kk::Context<Space>&, const View& output_gradient, const View& input_gradient,
                      Saved& saved) const {
    for (std::size_t r = 0; r < output_gradient.extent(0); ++r)
      for (std::size_t c = 0; c < output_gradient.extent(1); ++c)
        input_gradient(r, c) = output_gradient(r, c) * (1 - saved.input(r, c) * saved.input(r, c));
  }
  void backward_weight(kk::Context<Space>&, Saved&) const {}
  template <class F>
  void for_each_parameter(F&&) {}
};
static_assert(kk::Module<Bend> && kk::Module<kk::nn::Linear<double>> && kk::Module<kk::AnyModule<double>>);

using Stage = kk::ModuleStage<Batch, SquaredError, Space>;
static_assert(kk::PipelineStage<Stage>);

constexpr std::int64_t widths[] = {4, 7, 7, 5, 5, 6, 2};  // between the modules

void add_module(Stage& stage, std::int64_t i) {
  if (widths[i] == widths[i + 1])
    stage.add(Bend{widths[i]});
  else
    stage.add(kk::nn::Linear<double, Space>(kk::message("layer.", i), widths[i], widths[i + 1],
                                            {.weight = kk::Initial::normal(0.7)}));
}

struct Stages {
  std::vector<std::unique_ptr<Stage>> stages;
  Stages(const kk::schedule::Table& table, int rank) {
    for (int chunk = 0; chunk < table.chunks(); ++chunk) {
      const int s = table.stage(rank, chunk);
      const kk::Range range = kk::partition(6, table.stages(), s);
      stages.push_back(std::make_unique<Stage>(
          kk::ModuleStageOptions{.first = s == 0, .last = s + 1 == table.stages(), .columns = widths[range.begin]}));
      for (std::int64_t i = range.begin; i < range.end; ++i) add_module(*stages.back(), i);
    }
  }
  template <class F>
  void for_each_parameter(F&& f) {
    for (auto& stage : stages) stage->for_each_parameter(f);
  }
};

struct Result {
  kk::LossSum loss;
  std::unique_ptr<Stages> stages;
  std::unique_ptr<kk::ParameterStore<double, Space>> store;
};

Result run(const kk::Communicator& pipeline, const kk::schedule::Table& table) {
  Result result;
  result.stages = std::make_unique<Stages>(table, pipeline.rank());
  result.store = std::make_unique<kk::ParameterStore<double, Space>>(*result.stages, 0);
  result.store->initialise(3);
  std::vector<Stage*> pointers;
  for (auto& stage : result.stages->stages) pointers.push_back(stage.get());
  kk::PipelineExecutor<Stage> executor(pipeline, table, pointers, 3);
  std::vector<Batch> batches;
  std::int64_t first = 0;
  for (int m = 0; m < table.microbatches(); ++m) {
    const std::int64_t rows = 3 - m % 4;  // 0 too
    Batch batch{kk::make_matrix<double, Space>("input", rows, 4), kk::make_matrix<double, Space>("wanted", rows, 2),
                first};
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < 4; ++c) batch.input(r, c) = std::sin(static_cast<double>(first + 3 * r + c));
      for (std::int64_t c = 0; c < 2; ++c) batch.wanted(r, c) = std::cos(static_cast<double>(first + r - c));
    }
    first += rows;
    batches.push_back(batch);
  }
  kk::Workspace<Space> workspace;
  std::vector<std::string> told;
  for (int step = 0; step < 2; ++step) {
    Kokkos::deep_copy(result.store->gradients(), 0);
    told.clear();
    result.loss =
        executor.train({Space(), workspace, pipeline, 1, 0, 0, 0, kk::Mode::training}, batches,
                       [&](int chunk, const auto& parameter) { told.push_back(kk::message(chunk, parameter.name)); });
  }
  // Every module with parameters is done once, the last first.
  std::size_t expected = 0;
  for (const auto* parameter : result.store->parameters())
    if (parameter->name.ends_with("weight")) ++expected;
  CHECK(told.size() == expected);
  const kk::LossSum evaluated =
      executor.evaluate({Space(), workspace, pipeline, 1, 0, 0, 0, kk::Mode::evaluation}, batches);
  CHECK(std::abs(evaluated.sum - result.loss.sum) <= 1e-12 * std::abs(result.loss.sum));
  return result;
}

}  // namespace

TEST_CASE("modules run under every schedule") {
  const kk::Communicator world(MPI_COMM_WORLD);
  for (const std::string_view name : kk::schedule::Known::names)
    for (const int microbatches : {3, 6}) {
      INFO(name, ", ", microbatches, " microbatches");
      const kk::schedule::Table table = kk::schedule::make_table(name, {world.size(), microbatches, 1});
      const Result ours = run(world, table);
      const Result serial = run(kk::Communicator(), kk::schedule::make_table<kk::GPipe>({1, microbatches}));
      for (const auto* parameter : ours.store->parameters()) {
        const auto& same = serial.store->at(parameter->name);
        for (std::size_t i = 0; i < parameter->gradient.extent(0); ++i)
          CHECK(std::abs(parameter->gradient(i) - same.gradient(i)) <=
                1e-11 * std::max(1.0, std::abs(same.gradient(i))));
      }
      if (table.rank_of(table.stages() - 1) == world.rank()) {
        CHECK(std::abs(ours.loss.sum - serial.loss.sum) <= 1e-12 * serial.loss.sum);
        CHECK(ours.loss.weight == serial.loss.weight);
      }
    }
}

TEST_CASE("modules that do not fit together are refused") {
  Stage stage({.first = true});
  stage.add(Bend{4});
  CHECK_THROWS_AS(stage.add(Bend{5}), kk::InputError);
}
