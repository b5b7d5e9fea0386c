// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include <kerkis/comm/communicator.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/module/context.hpp>
#include <kerkis/pipeline/boundary.hpp>
#include <kerkis/pipeline/program.hpp>
#include <kerkis/pipeline/stage.hpp>

namespace kerkis {

/// Runs the stages of this rank under any schedule: takes the actions of a proven table in their order, posts receives
/// as early as the proof says, and lets sends complete while it computes. Nothing here knows a schedule. One rank is
/// the same without messages.
template <PipelineStage Stage>
class PipelineExecutor {
 public:
  using Element = typename Stage::Element;
  using ExecutionSpace = typename Stage::ExecutionSpace;
  using Microbatch = typename Stage::Microbatch;

  /// `stages`: those of this rank, by chunk; they must outlive the executor. `rows`: the most of one microbatch.
  /// Allocates all that training needs. Throws InputError if the verifier rejects `table`.
  PipelineExecutor(Communicator pipeline, const schedule::Table& table, std::vector<Stage*> stages, std::int64_t rows)
      : pipeline_(std::move(pipeline)), table_(table), stages_(std::move(stages)), rows_(rows),
        training_(detail::training_program(table, pipeline_.rank())) {
    for (int chunk = 0; chunk < table_.chunks(); ++chunk) {
      const auto c = static_cast<std::size_t>(chunk);
      const int live = std::max(1, training_.live[c]);
      // A buffer is lent again only after as many others as sends may be under way in the proof.
      const int buffers = live + 2 * training_.depth.receives + training_.depth.sends + 1;
      saved_.emplace_back(live, training_.microbatches, [&] { return stages_[c]->make_saved(rows_); });
      boundaries_.emplace_back(buffers, training_.microbatches, [&] {
        return make_boundary(table_.stage(pipeline_.rank(), chunk), stages_[c]->columns());
      });
    }
  }

  PipelineExecutor(PipelineExecutor&&) = default;
  PipelineExecutor& operator=(PipelineExecutor&&) = delete;
  /// After a failure MPI may still write to the buffers: they are leaked.
  ~PipelineExecutor() {
    if (!pipeline_.poisoned()) return;
    comm::leak(std::move(saved_));
    comm::leak(std::move(boundaries_));
  }

  /// Forward and backward of all microbatches: adds to the gradients of the stages' parameters, and returns the loss of
  /// the last stage ({0, 0} on ranks that do not have it). `ready(chunk, parameter)` is called when the gradients of
  /// `parameter` and of all that the chunk declares after it are complete. There must be as many microbatches as the
  /// table has.
  template <class Ready>
  LossSum train(const Context<ExecutionSpace>& context, std::span<const Microbatch> microbatches, Ready&& ready) {
    require(static_cast<int>(microbatches.size()) == training_.microbatches, "pipeline: ", microbatches.size(),
            " microbatches for a schedule of ", training_.microbatches);
    return run(training_, context, microbatches, ready);
  }

  /// The forward pass of any number of microbatches.
  LossSum evaluate(const Context<ExecutionSpace>& context, std::span<const Microbatch> microbatches) {
    const detail::Program program =
        detail::evaluation_program(table_, pipeline_.rank(), static_cast<int>(microbatches.size()));
    return run(program, context, microbatches, [](int, const auto&) {});
  }

  const schedule::Table& table() const { return table_; }

 private:
  using View = Matrix<Element, ExecutionSpace>;
  using Boundary = detail::Boundary<Element, ExecutionSpace>;

  /// What a stage throws is announced here, before the pending hand-offs are abandoned.
  template <class Ready>
  LossSum run(const detail::Program& program, const Context<ExecutionSpace>& context,
              std::span<const Microbatch> microbatches, Ready&& ready) {
    return pipeline_.guard([&] { return work(program, context, microbatches, ready); });
  }

  template <class Ready>
  LossSum work(const detail::Program& program, Context<ExecutionSpace> context,
               std::span<const Microbatch> microbatches, Ready&& ready) {
    for (std::size_t c = 0; c < stages_.size(); ++c) saved_[c].reset(), boundaries_[c].reset();
    posted_.assign(program.channels.size(), 0);
    for (std::size_t c = 0; c < program.channels.size(); ++c)
      for (int ahead = 0; ahead < program.depth.receives; ++ahead) post_receive(program, c, context, microbatches);

    LossSum loss;
    for (const detail::Program::Step& step : program.steps) {
      const auto c = static_cast<std::size_t>(step.action.chunk);
      const int m = step.action.microbatch;
      const Microbatch& microbatch = microbatches[static_cast<std::size_t>(m)];
      Stage& stage = *stages_[c];
      Boundary& boundary = this->boundary(c, m);
      auto& saved = saved_[c].of(m);
      context.microbatch = m;
      context.first_sample = microbatch.first_sample;

      if (step.input) {
        (step.action.kind == schedule::ActionKind::forward ? boundary.receive_input : boundary.receive_gradient).wait();
        post_receive(program, step.channel, context, microbatches);
      }
      const auto tell = [&](const auto& parameter) {
        if (step.last_weight) ready(step.action.chunk, parameter);
      };
      const std::int64_t rows = microbatch.rows();
      const View input = first_rows(boundary.input, rows), output = first_rows(boundary.output, rows);
      const View output_gradient = first_rows(boundary.output_gradient, rows),
                 input_gradient = first_rows(boundary.input_gradient, rows);
      switch (step.action.kind) {
      case schedule::ActionKind::forward:
        loss += stage.forward(context, microbatch, input, output, saved);
        break;
      case schedule::ActionKind::backward:
        stage.backward(context, microbatch, output_gradient, input_gradient, saved, tell);
        break;
      case schedule::ActionKind::backward_input:
        stage.backward_input(context, microbatch, output_gradient, input_gradient, saved);
        break;
      case schedule::ActionKind::backward_weight:
        stage.backward_weight(context, microbatch, saved, tell);
        break;
      }
      hand_over(step, context, boundary, rows, program.microbatches);
      context.poll();
      if (step.releases) {
        saved_[c].give_back(m);
        boundaries_[c].give_back(m);
      }
    }
    for (auto& pool : boundaries_)
      for (Boundary& boundary : pool.all()) boundary.send_output.wait(), boundary.send_gradient.wait();
    return loss;
  }

  /// The buffers of a microbatch; when they are lent anew, what the last borrower sent from them must have left.
  Boundary& boundary(std::size_t chunk, int microbatch) {
    const bool had = boundaries_[chunk].has(microbatch);
    Boundary& boundary = boundaries_[chunk].of(microbatch);
    if (!had) boundary.send_output.wait(), boundary.send_gradient.wait();
    return boundary;
  }

  /// Posts the next receive of a channel, if there is one.
  void post_receive(const detail::Program& program, std::size_t c, const Context<ExecutionSpace>& context,
                    std::span<const Microbatch> microbatches) {
    const auto& channel = program.channels[c];
    if (posted_[c] == channel.messages.size()) return;
    const auto& [message, chunk] = channel.messages[posted_[c]++];
    const bool forward = channel.direction == schedule::Direction::forward;
    Boundary& boundary = this->boundary(static_cast<std::size_t>(chunk), message.microbatch);
    const std::int64_t rows = microbatches[static_cast<std::size_t>(message.microbatch)].rows();
    (forward ? boundary.receive_input : boundary.receive_gradient) =
        receive(context.execution, pipeline_, first_rows(forward ? boundary.input : boundary.output_gradient, rows),
                {.from = channel.peer, .tag = tag(message, program.microbatches)});
  }

  /// Sends what a computation has made, or copies it to the next stage if that is on this rank too.
  void hand_over(const detail::Program::Step& step, const Context<ExecutionSpace>& context, Boundary& boundary,
                 std::int64_t rows, int microbatches) {
    const bool forward = step.action.kind == schedule::ActionKind::forward;
    if (step.action.kind == schedule::ActionKind::backward_weight) return;
    const View made = first_rows(forward ? boundary.output : boundary.input_gradient, rows);
    const int neighbour = table_.stage(pipeline_.rank(), step.action.chunk) + (forward ? 1 : -1);
    if (step.output) {
      (forward ? boundary.send_output : boundary.send_gradient) =
          send(context.execution, pipeline_, made,
               {.to = table_.rank_of(neighbour), .tag = tag(*step.output, microbatches)});
    } else if (neighbour >= 0 && neighbour < table_.stages()) {
      Boundary& next = this->boundary(static_cast<std::size_t>(table_.chunk_of(neighbour)), step.action.microbatch);
      Kokkos::deep_copy(context.execution, first_rows(forward ? next.input : next.output_gradient, rows), made);
    }
  }

  /// Every message carries its boundary, direction and microbatch, so that it can't be taken for another.
  static int tag(const schedule::Message& message, int microbatches) {
    return (message.boundary * 2 + (message.direction == schedule::Direction::forward ? 0 : 1)) * microbatches +
           message.microbatch;
  }

  Boundary make_boundary(int stage, std::int64_t columns) const {
    Boundary boundary;
    if (stage > 0) {
      boundary.input = make_matrix<Element, ExecutionSpace>("kerkis::pipeline::input", rows_, columns);
      boundary.input_gradient =
          make_matrix<Element, ExecutionSpace>("kerkis::pipeline::input_gradient", rows_, columns);
    }
    if (stage + 1 < table_.stages()) {
      boundary.output = make_matrix<Element, ExecutionSpace>("kerkis::pipeline::output", rows_, columns);
      boundary.output_gradient =
          make_matrix<Element, ExecutionSpace>("kerkis::pipeline::output_gradient", rows_, columns);
    }
    return boundary;
  }

  Communicator pipeline_;
  schedule::Table table_;
  std::vector<Stage*> stages_;
  std::int64_t rows_;
  detail::Program training_;
  std::vector<detail::Pool<typename Stage::Saved>> saved_;
  std::vector<detail::Pool<Boundary>> boundaries_;
  std::vector<std::size_t> posted_;  ///< receives of each channel
};

}  // namespace kerkis
