// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <kerkis/module/parameter_store.hpp>
#include <kerkis/pipeline/executor.hpp>
#include <kerkis/schedule/action.hpp>

/// A model that is no neural network, in stages.
namespace waves {

namespace kk = kerkis;
using Space = Kokkos::DefaultHostExecutionSpace;
using View = kk::Matrix<double, Space>;
using Parameter = kk::Parameter<double, Space>;

inline constexpr std::int64_t columns = 3;

/// Rows of samples; sample s has the value sin(s + column).
struct Samples {
  std::int64_t first_sample = 0, count = 0;
  std::int64_t rows() const { return count; }
  double value(std::int64_t row, std::int64_t column) const {
    return std::sin(static_cast<double>(first_sample + row + column));
  }
};

/// Some microbatches are short, some are empty.
inline std::vector<Samples> make_samples(int microbatches) {
  std::vector<Samples> samples;
  std::int64_t first = 0;
  for (int m = 0; m < microbatches; ++m) {
    const std::int64_t count = m % 5 == 1 ? 0 : 4 - m % 3;
    samples.push_back({first, count});
    first += count;
  }
  return samples;
}

/// Where a stage throws.
struct Failure {
  kk::schedule::ActionKind kind = kk::schedule::ActionKind::forward;
  int microbatch = -1;
};

/// output = sin(weight * input), column by column; the last stage's loss is the sum of squares.
class Wave {
 public:
  using Element = double;
  using ExecutionSpace = Space;
  using Microbatch = Samples;
  struct KeptInput {
    View output;
  };
  struct KeptWeight {
    View input, slope;
  };
  using Saved = kk::Saved<KeptInput, KeptWeight>;

  Wave(int stage, bool first, bool last)
      : first_(first), last_(last), parameter_(Parameter::whole(kk::message("stage.", stage), {waves::columns},
                                                                kk::Initial::constant(0.5 + 0.25 * stage), false)) {}

  std::int64_t columns() const { return waves::columns; }
  Saved make_saved(std::int64_t rows) const {
    return {{kk::make_matrix<double, Space>("output", rows, columns())},
            {kk::make_matrix<double, Space>("input", rows, columns()),
             kk::make_matrix<double, Space>("slope", rows, columns())}};
  }
  template <class F>
  void for_each_parameter(F&& f) {
    f(parameter_);
  }

  kk::LossSum forward(kk::Context<Space>& context, const Samples& samples, const View& input, const View& output,
                      Saved& saved) {
    fail(kk::schedule::ActionKind::forward, context.microbatch);
    double loss = 0;
    for (std::int64_t r = 0; r < samples.rows(); ++r)
      for (std::int64_t c = 0; c < columns(); ++c) {
        const double x = first_ ? samples.value(r, c) : input(r, c), y = std::sin(weight(c) * x);
        saved.weight.input(r, c) = x;
        saved.input.output(r, c) = y;
        if (last_)
          loss += y * y;
        else
          output(r, c) = y;
      }
    return last_ ? kk::LossSum{loss, static_cast<double>(samples.rows())} : kk::LossSum{};
  }
  void backward_input(kk::Context<Space>& context, const Samples& samples, const View& output_gradient,
                      const View& input_gradient, Saved& saved) {
    fail(kk::schedule::ActionKind::backward_input, context.microbatch);
    for (std::int64_t r = 0; r < samples.rows(); ++r)
      for (std::int64_t c = 0; c < columns(); ++c) {
        const double upper = last_ ? 2 * saved.input.output(r, c) : output_gradient(r, c);
        saved.weight.slope(r, c) = upper * std::cos(weight(c) * saved.weight.input(r, c));
        if (!first_) input_gradient(r, c) = saved.weight.slope(r, c) * weight(c);
      }
  }
  template <class Ready>
  void backward_weight(kk::Context<Space>& context, const Samples& samples, Saved& saved, Ready&& ready) {
    fail(kk::schedule::ActionKind::backward_weight, context.microbatch);
    for (std::int64_t r = 0; r < samples.rows(); ++r)
      for (std::int64_t c = 0; c < columns(); ++c)
        parameter_.gradient(static_cast<std::size_t>(c)) += saved.weight.slope(r, c) * saved.weight.input(r, c);
    ready(parameter_);
  }
  template <class Ready>
  void backward(kk::Context<Space>& context, const Samples& samples, const View& output_gradient,
                const View& input_gradient, Saved& saved, Ready&& ready) {
    fail(kk::schedule::ActionKind::backward, context.microbatch);
    backward_input(context, samples, output_gradient, input_gradient, saved);
    backward_weight(context, samples, saved, ready);
  }

  Failure fails;

 private:
  void fail(kk::schedule::ActionKind kind, int microbatch) const {
    if (fails.kind == kind && fails.microbatch == microbatch) throw std::runtime_error("the wave breaks");
  }
  double weight(std::int64_t column) const { return parameter_.value(static_cast<std::size_t>(column)); }
  bool first_, last_;
  Parameter parameter_;
};
static_assert(kk::PipelineStage<Wave>);

/// The stages of one rank.
template <class Stage>
struct Stages {
  std::vector<std::unique_ptr<Stage>> stages;

  Stages(const kk::schedule::Table& table, int rank) {
    for (int chunk = 0; chunk < table.chunks(); ++chunk) {
      const int stage = table.stage(rank, chunk);
      stages.push_back(std::make_unique<Stage>(stage, stage == 0, stage == table.stages() - 1));
    }
  }
  template <class F>
  void for_each_parameter(F&& f) {
    for (auto& stage : stages) stage->for_each_parameter(f);
  }
  std::vector<Stage*> pointers() const {
    std::vector<Stage*> result;
    for (const auto& stage : stages) result.push_back(stage.get());
    return result;
  }
};

inline kk::Context<Space> context(const kk::Communicator& pipeline, kk::Workspace<Space>& workspace,
                                  kk::Mode mode = kk::Mode::training) {
  return {Space(), workspace, pipeline, 1, 0, 0, 0, mode};
}

}  // namespace waves
