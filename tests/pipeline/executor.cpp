// SPDX-License-Identifier: Apache-2.0
// The executor runs a stage that is no neural network under schedules of the library's and of a user's.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <kerkis/kerkis.hpp>
#include <memory>
#include <string>
#include <vector>

#include "../schedule/schedules.hpp"

namespace kk = kerkis;
using Space = Kokkos::DefaultExecutionSpace;
using View = kk::Matrix<double, Space>;
using Parameter = kk::Parameter<double, Space>;

namespace {

constexpr std::int64_t columns = 3;

/// Rows of samples; sample s has the value sin(s + column). Some microbatches are short, one is empty.
struct Samples {
  std::int64_t first_sample = 0, count = 0;
  std::int64_t rows() const { return count; }
  double value(std::int64_t row, std::int64_t column) const {
    return std::sin(static_cast<double>(first_sample + row + column));
  }
};

/// output = sin(weight * input), column by column; the last stage's loss is the sum of squares.
class Wave {
 public:
  using Element = double;
  using ExecutionSpace = Space;
  using Microbatch = Samples;
  struct Kept {
    View input, output, slope;
  };
  using Saved = kk::Saved<int, Kept>;

  Wave(int stage, bool first, bool last)
      : first_(first), last_(last), parameter_(Parameter::whole(kk::message("stage.", stage), {::columns},
                                                                kk::Initial::constant(0.5 + 0.25 * stage), false)) {}

  std::int64_t columns() const { return ::columns; }
  Saved make_saved(std::int64_t rows) const {
    return {0,
            {kk::make_matrix<double, Space>("input", rows, columns()),
             kk::make_matrix<double, Space>("output", rows, columns()),
             kk::make_matrix<double, Space>("slope", rows, columns())}};
  }
  template <class F>
  void for_each_parameter(F&& f) {
    f(parameter_);
  }

  kk::LossSum forward(kk::Context<Space>& context, const Samples& samples, const View& input, const View& output,
                      Saved& saved) {
    if (context.mode == kk::Mode::training) most_alive = std::max(most_alive, ++alive);
    if (fails_at == context.microbatch) throw std::runtime_error("the wave breaks");
    double loss = 0;
    for (std::int64_t r = 0; r < samples.rows(); ++r)
      for (std::int64_t c = 0; c < columns(); ++c) {
        const double x = first_ ? samples.value(r, c) : input(r, c), y = std::sin(weight(c) * x);
        saved.weight.input(r, c) = x;
        saved.weight.output(r, c) = y;
        if (last_)
          loss += y * y;
        else
          output(r, c) = y;
      }
    return last_ ? kk::LossSum{loss, static_cast<double>(samples.rows())} : kk::LossSum{};
  }
  void backward_input(kk::Context<Space>&, const Samples& samples, const View& output_gradient,
                      const View& input_gradient, Saved& saved) {
    for (std::int64_t r = 0; r < samples.rows(); ++r)
      for (std::int64_t c = 0; c < columns(); ++c) {
        const double upper = last_ ? 2 * saved.weight.output(r, c) : output_gradient(r, c);
        saved.weight.slope(r, c) = upper * std::cos(weight(c) * saved.weight.input(r, c));
        if (!first_) input_gradient(r, c) = saved.weight.slope(r, c) * weight(c);
      }
  }
  template <class Ready>
  void backward_weight(kk::Context<Space>&, const Samples& samples, Saved& saved, Ready&& ready) {
    for (std::int64_t r = 0; r < samples.rows(); ++r)
      for (std::int64_t c = 0; c < columns(); ++c)
        parameter_.gradient(static_cast<std::size_t>(c)) += saved.weight.slope(r, c) * saved.weight.input(r, c);
    --alive;
    ready(parameter_);
  }
  template <class Ready>
  void backward(kk::Context<Space>& context, const Samples& samples, const View& output_gradient,
                const View& input_gradient, Saved& saved, Ready&& ready) {
    backward_input(context, samples, output_gradient, input_gradient, saved);
    backward_weight(context, samples, saved, ready);
  }

  int alive = 0, most_alive = 0, fails_at = -1;

 private:
  double weight(std::int64_t column) const { return parameter_.value(static_cast<std::size_t>(column)); }
  bool first_, last_;
  Parameter parameter_;
};
static_assert(kk::PipelineStage<Wave>);

struct Waves {
  std::vector<std::unique_ptr<Wave>> stages;
  template <class F>
  void for_each_parameter(F&& f) {
    for (auto& stage : stages) stage->for_each_parameter(f);
  }
  std::vector<Wave*> pointers() const {
    std::vector<Wave*> result;
    for (const auto& stage : stages) result.push_back(stage.get());
    return result;
  }
};

Waves make_waves(const kk::schedule::Table& table, int rank) {
  Waves waves;
  for (int chunk = 0; chunk < table.chunks(); ++chunk) {
    const int stage = table.stage(rank, chunk);
    waves.stages.push_back(std::make_unique<Wave>(stage, stage == 0, stage == table.stages() - 1));
  }
  return waves;
}

std::vector<Samples> make_samples(int microbatches) {
  std::vector<Samples> samples;
  std::int64_t first = 0;
  for (int m = 0; m < microbatches; ++m) {
    const std::int64_t count = m == 1 ? 0 : 4 - m % 3;
    samples.push_back({first, count});
    first += count;
  }
  return samples;
}

struct Result {
  kk::LossSum loss;
  std::vector<double> gradients;  ///< of this rank's stages, by chunk
  std::vector<int> ready;         ///< chunks in the order in which they were said to be ready
};

Result run(const kk::Communicator& pipeline, const kk::schedule::Table& table, Waves& waves, int steps = 1) {
  kk::ParameterStore<double, Space> store(waves, 0);
  store.initialise(1);
  kk::PipelineExecutor<Wave> executor(pipeline, table, waves.pointers(), 4);
  kk::Workspace<Space> workspace;
  const std::vector<Samples> samples = make_samples(table.microbatches());
  const kk::Context<Space> context{Space(), workspace, pipeline, 1, 0, 0, 0, kk::Mode::training};
  Result result;
  for (int step = 0; step < steps; ++step) {
    result = {};
    Kokkos::deep_copy(store.gradients(), 0);
    result.loss = executor.train(context, samples, [&](int chunk, const auto&) { result.ready.push_back(chunk); });
  }
  for (const auto* parameter : store.parameters())
    for (std::int64_t c = 0; c < columns; ++c)
      result.gradients.push_back(parameter->gradient(static_cast<std::size_t>(c)));
  const kk::LossSum evaluated =
      executor.evaluate({Space(), workspace, pipeline, 1, 0, 0, 0, kk::Mode::evaluation}, samples);
  CHECK(std::abs(evaluated.sum - result.loss.sum) <= 1e-12);
  CHECK(evaluated.weight == result.loss.weight);
  return result;
}

/// Compares a schedule with all stages on one rank.
template <class Schedule>
void check(int microbatches, int chunks = 1) {
  const kk::Communicator world(MPI_COMM_WORLD);
  const kk::schedule::Table table = kk::schedule::make_table<Schedule>({world.size(), microbatches, chunks});
  Waves ours = make_waves(table, world.rank());
  const Result result = run(world, table, ours, 3);

  const kk::schedule::Table serial = kk::schedule::make_table<user::BreadthFirst>({1, microbatches, table.stages()});
  Waves all = make_waves(serial, 0);
  const Result expected = run(kk::Communicator(), serial, all);
  for (int chunk = 0; chunk < table.chunks(); ++chunk) {
    const int stage = table.stage(world.rank(), chunk);
    for (std::int64_t c = 0; c < columns; ++c) {
      const double a = result.gradients[static_cast<std::size_t>(chunk * columns + c)],
                   b = expected.gradients[static_cast<std::size_t>(stage * columns + c)];
      CHECK_MESSAGE(std::abs(a - b) <= 1e-12 * std::abs(b), Schedule::name, ", stage ", stage, ": ", a, " for ", b);
    }
    if (stage == table.stages() - 1) {
      CHECK(std::abs(result.loss.sum - expected.loss.sum) <= 1e-12);
      CHECK(result.loss.weight == expected.loss.weight);
    }
    // What the verifier says is what happens.
    CHECK(ours.stages[static_cast<std::size_t>(chunk)]->most_alive ==
          kk::schedule::peak_live(table, world.rank(), chunk).until_weight);
    CHECK(std::count(result.ready.begin(), result.ready.end(), chunk) == 1);
  }
}

/// Sends what it has not computed yet: every rank begins with the last stage's work.
struct Backwards {
  static constexpr std::string_view name = "backwards";
  static constexpr void order(kk::PipelineShape shape, int, kk::ActionList& list) {
    for (int m = 0; m < shape.microbatches; ++m) list.backward(m);
    for (int m = 0; m < shape.microbatches; ++m) list.forward(m);
  }
};

}  // namespace

TEST_CASE_TEMPLATE("one stage per rank", Schedule, kk::GPipe, kk::OneForwardOneBackward, user::OneByOne,
                   user::ZeroBubble<1, 1>, user::ZeroBubble<2, 2>) {
  for (const int microbatches : {1, 2, 3, 8}) check<Schedule>(microbatches);
}

TEST_CASE("several stages per rank") {
  for (const int microbatches : {1, 3, 6}) {
    check<user::BreadthFirst>(microbatches, 2);
    check<user::BreadthFirst>(microbatches, 3);
    check<user::GPipeV>(microbatches);
  }
}

TEST_CASE("a table that the verifier rejects does not run") {
  const kk::Communicator world(MPI_COMM_WORLD);
  const kk::schedule::Table table = kk::schedule::make_table<Backwards>({world.size(), 2});
  Waves waves = make_waves(table, world.rank());
  CHECK_THROWS_AS(kk::PipelineExecutor<Wave>(world, table, waves.pointers(), 4), kk::InputError);
}

TEST_CASE("a stage that throws is an error on every rank") {
  const kk::Communicator world(MPI_COMM_WORLD);
  const kk::schedule::Table table = kk::schedule::make_table<kk::OneForwardOneBackward>({world.size(), 6});
  Waves waves = make_waves(table, world.rank());
  if (world.rank() == world.size() - 1) waves.stages[0]->fails_at = 3;
  std::string text;
  try {
    world.guard([&] {
      run(world, table, waves);
      kk::barrier(world).wait();
    });
  } catch (const std::exception& error) {
    text = error.what();
  }
  CHECK_MESSAGE(text.find("the wave breaks") != std::string::npos, text);
}
