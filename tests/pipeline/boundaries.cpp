// SPDX-License-Identifier: Apache-2.0
// What lies between stages: several matrices, some without a gradient; numbers of rows that a stage changes; stages
// that do not agree.

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include <kerkis/schedule/registry.hpp>

#include "../schedule/schedules.hpp"
#include "waves.hpp"

using namespace waves;

namespace {

/// Hands on x (3 columns, with a gradient), weights of rows (1 column, without) and y (5 columns, with):
/// x' = sin(w x) * weight, y' = y + sum of x, weight' = weight + 0.5. The loss is the sum of y'.
/// `changes`: it drops rows whose weight and sample say so.
template <bool changes>
class Several {
 public:
  using Element = double;
  using ExecutionSpace = Space;
  using Microbatch = Samples;
  using Matrices = std::array<kk::BoundaryMatrix, 3>;
  using Views = std::array<View, 3>;
  static constexpr bool changes_rows = changes;
  struct KeptWeight {
    View x, weight, slope;
    std::vector<std::size_t> from;  ///< which row of the input each row of the output comes from
    std::size_t rows = 0;           ///< of the input
  };
  using Saved = kk::Saved<int, KeptWeight>;

  Several(int stage, bool first, bool last)
      : stage_(stage), first_(first), last_(last),
        parameter_(
            Parameter::whole(kk::message("stage.", stage), {3}, kk::Initial::constant(0.6 + 0.2 * stage), false)) {}

  Matrices input_matrices() const { return {{{3}, {1, false}, {5}}}; }
  Matrices output_matrices() const { return {{{3}, {1, false}, {5}}}; }
  Saved make_saved(std::int64_t rows) const {
    Saved saved{0,
                {kk::make_matrix<double, Space>("x", rows, 3),
                 kk::make_matrix<double, Space>("weight", rows, 1),
                 kk::make_matrix<double, Space>("slope", rows, 3),
                 {},
                 0}};
    saved.weight.from.reserve(static_cast<std::size_t>(rows));
    return saved;
  }
  template <class F>
  void for_each_parameter(F&& f) {
    f(parameter_);
  }

  template <class Output>
  kk::LossSum forward(kk::Context<Space>&, const Samples& samples, const Views& input, Output& output, Saved& saved) {
    KeptWeight& kept = saved.weight;
    kept.rows = first_ ? static_cast<std::size_t>(samples.rows()) : input[0].extent(0);
    kept.from.clear();
    double loss = 0;
    for (std::size_t r = 0; r < kept.rows; ++r) {
      const double weight = first_ ? 1 + 0.1 * static_cast<double>(r) : input[1](r, 0);
      if (changes && (static_cast<int>(r) + stage_ + static_cast<int>(samples.first_sample)) % 3 == 0) continue;
      const std::size_t to = kept.from.size();
      kept.from.push_back(r);
      kept.weight(r, 0) = weight;
      double sum = 0;
      for (std::size_t c = 0; c < 3; ++c) {
        const double x =
            first_ ? samples.value(static_cast<std::int64_t>(r), static_cast<std::int64_t>(c)) : input[0](r, c);
        kept.x(r, c) = x;
        const double made = std::sin(parameter_.value(c) * x) * weight;
        sum += made;
        if (!last_) output[0](to, c) = made;
      }
      if (!last_) output[1](to, 0) = weight + 0.5;
      for (std::size_t c = 0; c < 5; ++c) {
        const double y = (first_ ? 0.0 : input[2](r, c)) + sum;
        loss += y;
        if (!last_) output[2](to, c) = y;
      }
    }
    if constexpr (changes)
      if (!last_)
        for (auto& matrix : output) matrix = kk::first_rows(matrix, static_cast<std::int64_t>(kept.from.size()));
    return last_ ? kk::LossSum{loss, static_cast<double>(kept.from.size())} : kk::LossSum{};
  }
  void backward_input(kk::Context<Space>&, const Samples&, const Views& output_gradient, const Views& input_gradient,
                      Saved& saved) {
    KeptWeight& kept = saved.weight;
    if (!last_)
      right_ = right_ && output_gradient[0].extent(0) == kept.from.size() && output_gradient[1].extent(1) == 0;
    if (!first_)
      for (const std::size_t m : {std::size_t{0}, std::size_t{2}}) {
        right_ = right_ && input_gradient[m].extent(0) == kept.rows;
        for (std::size_t r = 0; r < kept.rows; ++r)
          for (std::size_t c = 0; c < input_gradient[m].extent(1); ++c) input_gradient[m](r, c) = 0;
      }
    for (std::size_t to = 0; to < kept.from.size(); ++to) {
      const std::size_t r = kept.from[to];
      double sum = 0;
      for (std::size_t c = 0; c < 5; ++c) {
        const double of_y = last_ ? 1 : output_gradient[2](to, c);
        sum += of_y;
        if (!first_) input_gradient[2](r, c) = of_y;
      }
      for (std::size_t c = 0; c < 3; ++c) {
        const double upper = sum + (last_ ? 0 : output_gradient[0](to, c));
        kept.slope(r, c) = upper * kept.weight(r, 0) * std::cos(parameter_.value(c) * kept.x(r, c));
        if (!first_) input_gradient[0](r, c) = kept.slope(r, c) * parameter_.value(c);
      }
    }
  }
  template <class Ready>
  void backward_weight(kk::Context<Space>&, const Samples&, Saved& saved, Ready&& ready) {
    for (const std::size_t r : saved.weight.from)
      for (std::size_t c = 0; c < 3; ++c) parameter_.gradient(c) += saved.weight.slope(r, c) * saved.weight.x(r, c);
    ready(parameter_);
  }
  template <class Ready>
  void backward(kk::Context<Space>& context, const Samples& samples, const Views& output_gradient,
                const Views& input_gradient, Saved& saved, Ready&& ready) {
    backward_input(context, samples, output_gradient, input_gradient, saved);
    backward_weight(context, samples, saved, ready);
  }
  bool right() const { return right_; }

 private:
  int stage_;
  bool first_, last_, right_ = true;
  Parameter parameter_;
};

struct Result {
  kk::LossSum loss;
  std::vector<double> gradients;
};

template <class Stage>
Result run(const kk::Communicator& pipeline, const kk::schedule::Table& table, int steps) {
  Stages<Stage> stages(table, pipeline.rank());
  kk::ParameterStore<double, Space> store(stages, 0);
  store.initialise(1);
  kk::PipelineExecutor<Stage> executor(pipeline, table, stages.pointers(), 4);
  kk::Workspace<Space> workspace;
  std::vector<Samples> samples = make_samples(table.microbatches());
  Result result;
  for (int step = 0; step < steps; ++step) {
    std::rotate(samples.begin(), samples.begin() + 1, samples.end());  // other shapes in every step
    Kokkos::deep_copy(store.gradients(), 0);
    if (step > 0)  // leaves no trace
      executor.train(
          context(pipeline, workspace), samples, [](int, const auto&) { CHECK(false); }, [] { return false; });
    result.loss = executor.train(context(pipeline, workspace), samples, [](int, const auto&) {});
  }
  for (const auto* parameter : store.parameters())
    for (std::size_t c = 0; c < 3; ++c) result.gradients.push_back(parameter->gradient(c));
  const kk::LossSum evaluated = executor.evaluate(context(pipeline, workspace, kk::Mode::evaluation), samples);
  CHECK(std::abs(evaluated.sum - result.loss.sum) <= 1e-12 * std::abs(result.loss.sum));
  for (const auto& stage : stages.stages) CHECK(stage->right());
  return result;
}

template <class Stage>
void compare(std::string_view name, int microbatches) {
  const kk::Communicator world(MPI_COMM_WORLD);
  const kk::schedule::Table table = kk::schedule::make_table(name, {world.size(), microbatches, 1});
  INFO(name, ", ", microbatches, " microbatches");
  const Result result = run<Stage>(world, table, 4);
  const Result expected = run<Stage>(
      kk::Communicator(), kk::schedule::make_table<user::BreadthFirst>({1, microbatches, table.stages()}), 4);
  for (int chunk = 0; chunk < table.chunks(); ++chunk)
    for (int c = 0; c < 3; ++c) {
      const double a = result.gradients[static_cast<std::size_t>(3 * chunk + c)],
                   b = expected.gradients[static_cast<std::size_t>(3 * table.stage(world.rank(), chunk) + c)];
      CHECK(std::abs(a - b) <= 1e-12 * std::abs(b));
    }
  if (table.rank_of(table.stages() - 1) == world.rank()) {
    CHECK(std::abs(result.loss.sum - expected.loss.sum) <= 1e-12 * std::abs(expected.loss.sum));
    CHECK(result.loss.weight == expected.loss.weight);
  }
}

/// Counts what goes through it, forward only and without anything saved.
struct Counter {
  using Element = int;
  using ExecutionSpace = Space;
  using Microbatch = Samples;
  int stage = 0;
  bool first = false, last = false;
  std::int64_t wide = 2;
  std::vector<int>* results = nullptr;

  std::int64_t columns() const { return wide; }
  void forward(kk::Context<Space>&, const Samples& samples, const kk::Matrix<int, Space>& input,
               const kk::Matrix<int, Space>& output) {
    for (std::int64_t r = 0; r < samples.rows(); ++r) {
      const int got = first ? static_cast<int>(samples.first_sample + r) : input(r, 0);
      if (last)
        results->push_back(got + stage);
      else
        for (std::int64_t c = 0; c < wide; ++c) output(r, c) = got + stage;
    }
  }
};
static_assert(kk::ForwardStage<Counter> && !kk::PipelineStage<Counter>);

/// Adds its number to what it gets, the first stage also that of the microbatch; the last one's results are fed back.
struct Adder {
  using Element = int;
  using ExecutionSpace = Space;
  using Microbatch = Samples;
  int stage = 0, last = 0, feedback = 0;
  std::vector<int>* results = nullptr;

  std::int64_t columns() const { return 1; }
  void forward(kk::Context<Space>&, const Samples& samples, const kk::Matrix<int, Space>& input,
               const kk::Matrix<int, Space>& output) {
    const auto m = static_cast<int>(samples.first_sample);
    int value = stage;
    if (stage > 0 || m >= feedback) {
      CHECK(input.extent(1) == 1);
      CHECK(input.extent(0) == static_cast<std::size_t>(stage > 0 ? samples.rows() : 1 + (m - feedback) % 3));
      value += input(input.extent(0) - 1, 0);
    } else {
      CHECK(input.extent(1) == 0);
    }
    if (stage == 0) value += m;
    if (stage == last) results->push_back(value);
    if (stage < last) CHECK(output.extent(1) == 1);
    Kokkos::deep_copy(output, value);  // has no columns if it is fed to nobody
  }
};

}  // namespace

TEST_CASE("several matrices, of which some carry gradients") {
  for (const std::string_view name : kk::schedule::Known::names)
    for (const int microbatches : {2, 4}) compare<Several<false>>(name, microbatches);
}

TEST_CASE("stages that change the number of rows") {
  for (const std::string_view name : kk::schedule::Known::names)
    for (const int microbatches : {2, 6}) compare<Several<true>>(name, microbatches);
}

TEST_CASE("forward only: any number of microbatches streams through") {
  const kk::Communicator world(MPI_COMM_WORLD);
  std::vector<int> results;
  Counter counter{
      .stage = world.rank(), .first = world.rank() == 0, .last = world.rank() + 1 == world.size(), .results = &results};
  kk::Workspace<Space> workspace;
  kk::PipelineExecutor<Counter> executor(world, kk::schedule::make_table<kk::ForwardOnly>({world.size(), 5}),
                                         {&counter}, 4);
  for (const int microbatches : {5, 1, 5, 40, 0, 5}) {
    results.clear();
    const std::vector<Samples> samples = make_samples(microbatches);
    executor.evaluate(context(world, workspace, kk::Mode::evaluation), samples);
    if (!counter.last) continue;
    std::size_t rows = 0;
    for (const Samples& part : samples) rows += static_cast<std::size_t>(part.rows());
    CHECK(results.size() == rows);
    for (std::size_t r = 0; r < results.size(); ++r)
      CHECK(results[r] == static_cast<int>(r) + world.size() * (world.size() - 1) / 2);
  }
}

TEST_CASE("what the last stage makes is fed back to the first") {
  const kk::Communicator world(MPI_COMM_WORLD);
  kk::Workspace<Space> workspace;
  for (const std::string_view name : {"gpipe", "zb-v", "bfs"}) {
    const kk::schedule::Table placement = kk::schedule::make_table(name, {world.size(), 1, name == "bfs" ? 3 : 1});
    const int stages = placement.stages();
    for (const int feedback : {1, 2, 3, 7, 20}) {
      const kk::schedule::Table table = kk::schedule::forward_only(placement, 15, feedback);
      std::vector<int> results;
      std::vector<Adder> mine;
      std::vector<Adder*> pointers;
      for (int chunk = 0; chunk < table.chunks(); ++chunk)
        mine.push_back({table.stage(world.rank(), chunk), stages - 1, feedback, &results});
      for (Adder& adder : mine) pointers.push_back(&adder);
      kk::PipelineExecutor<Adder> executor(world, table, pointers, 3);
      for (const int microbatches : {15, 15, 4, 15}) {
        results.clear();
        std::vector<Samples> samples;
        for (int m = 0; m < microbatches; ++m) samples.push_back({m, 1 + m % 3});
        executor.evaluate(context(world, workspace, kk::Mode::evaluation), samples);
        if (table.rank_of(stages - 1) != world.rank()) continue;
        std::vector<int> expected;
        for (int m = 0; m < microbatches; ++m)
          expected.push_back((m >= feedback ? expected[static_cast<std::size_t>(m - feedback)] : 0) + m +
                             stages * (stages - 1) / 2);
        CHECK(results == expected);
      }
    }
  }
}

TEST_CASE("two stages of one rank that do not agree are refused") {
  const kk::Communicator alone;
  Counter below{.first = true}, above{.stage = 1, .last = true, .wide = 3};
  CHECK_THROWS_AS(
      kk::PipelineExecutor<Counter>(alone, kk::schedule::make_table<kk::ForwardOnly>({1, 2, 2}), {&below, &above}, 4),
      kk::InputError);
}
