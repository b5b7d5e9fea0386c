// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include <kerkis/comm/communicator.hpp>
#include <kerkis/core/recorder.hpp>
#include <kerkis/module/context.hpp>
#include <kerkis/pipeline/boundary.hpp>
#include <kerkis/pipeline/kept.hpp>
#include <kerkis/pipeline/program.hpp>
#include <kerkis/pipeline/stage.hpp>
#include <kerkis/schedule/forward_only.hpp>

namespace kerkis {

/// Runs the stages of this rank under any schedule: takes the actions of a proven table in their order, posts receives
/// at least as early as the proof says, and lets sends complete while it computes. Nothing here knows a schedule. One
/// rank is the same without messages, and stages of one rank hand over in place.
///
/// Every rank makes the same calls with the same table, as many microbatches and the same passes. Each message says
/// what it is; one that is not what was due, by its pass, microbatch, first sample or shape, is an Error on every rank,
/// as is what a stage throws. After the first pass of its kind a pass allocates nothing.
template <class Stage>
class PipelineExecutor {
  static_assert(ForwardStage<Stage>,
                "kerkis: a PipelineExecutor runs stages: classes with the members that ForwardStage or, to train, "
                "PipelineStage ask for, see kerkis/pipeline/stage.hpp");
  using Traits = detail::StageTraits<Stage>;

 public:
  using Element = typename Stage::Element;
  using ExecutionSpace = typename Stage::ExecutionSpace;
  using Microbatch = typename Stage::Microbatch;

  /// `stages`: those of this rank, by chunk; they must outlive the executor. `rows`: the most of one microbatch.
  /// Allocates all that the table needs. Throws InputError if the verifier rejects `table`, or if it is not for as many
  /// ranks and stages as there are.
  PipelineExecutor(Communicator pipeline, const schedule::Table& table, std::vector<Stage*> stages, std::int64_t rows)
      : pipeline_(std::move(pipeline)), table_(checked(table, pipeline_, stages)), stages_(std::move(stages)),
        rows_(rows), main_(detail::make_program(table, pipeline_.rank())), boundaries_(main_.buffers.size()),
        kept_(stages_.size()), live_(stages_.size()) {
    require(rows >= 0, "pipeline: microbatches of ", rows, " rows");
    for (int chunk = 0; chunk < table_.chunks(); ++chunk) {
      const int stage = table_.stage(pipeline_.rank(), chunk);
      const Stage& its = *stages_[static_cast<std::size_t>(chunk)];
      const int depth = table_.stages(), below = (stage + depth - 1) % depth, above = (stage + 1) % depth;
      const bool feeds_back = table_.feedback() > 0;
      if (stage > 0 || feeds_back) add_boundary(below, Traits::input(its), table_.rank_of(below));
      if (above > 0 || feeds_back) add_boundary(stage, Traits::output(its), table_.rank_of(above));
    }
    reserve(main_);
  }

  PipelineExecutor(PipelineExecutor&&) = default;  ///< the other one can only be destroyed
  PipelineExecutor& operator=(PipelineExecutor&&) = delete;
  /// After a failure MPI may still write to the buffers: they are leaked.
  ~PipelineExecutor() {
    if (!pipeline_.poisoned()) return;
    comm::leak(std::move(kept_));
    comm::leak(std::move(boundaries_));
  }

  /// Forward and backward of all microbatches: adds to the gradients of the stages' parameters, and returns the loss of
  /// the last stage ({0, 0} on ranks that do not have it). `ready(chunk, parameter)` is called when the gradients of
  /// `parameter` and of all that the chunk declares after it are complete. There must be as many microbatches as the
  /// table has, which must be one for training.
  template <class Ready>
  LossSum train(const Context<ExecutionSpace>& context, std::span<const Microbatch> microbatches, Ready&& ready) {
    return train(context, microbatches, ready, [] { return true; });
  }

  /// The same, asking `goes_on()` once, before the first computation that is no forward. If it says no, nothing is
  /// computed in what is left of the pass, and no gradient changes: only the messages go on, with whatever lies in
  /// their buffers, so that every rank comes to the end of it. All ranks must get the same answer, but may at different
  /// times: what a forward has made of such a message is dropped with the rest.
  template <class Ready, class GoesOn>
  LossSum train(const Context<ExecutionSpace>& context, std::span<const Microbatch> microbatches, Ready&& ready,
                GoesOn&& goes_on) {
    static_assert(
        PipelineStage<Stage>,
        "kerkis: to be trained, a stage has backward, backward_input and backward_weight, see PipelineStage in "
        "kerkis/pipeline/stage.hpp");
    require(main_.trains, "the pipeline schedule has forward passes only: it can't train");
    require(static_cast<int>(microbatches.size()) == main_.microbatches, "pipeline: ", microbatches.size(),
            " microbatches for a schedule of ", main_.microbatches);
    return run(main_, context, microbatches, ready, goes_on);
  }

  /// The forward pass of any number of microbatches, with the stages where the table has them.
  LossSum evaluate(const Context<ExecutionSpace>& context, std::span<const Microbatch> microbatches) {
    const int parts = static_cast<int>(microbatches.size());
    const auto ready = [](int, const auto&) {};
    const auto goes_on = [] { return true; };
    if (parts == 0) return {};
    if (!main_.trains && parts == main_.microbatches) return run(main_, context, microbatches, ready, goes_on);
    if (!evaluation_ || evaluation_->microbatches != parts) {
      evaluation_ = detail::make_program(schedule::forward_only(table_, parts, table_.feedback()), pipeline_.rank());
      reserve(*evaluation_);
    }
    return run(*evaluation_, context, microbatches, ready, goes_on);
  }

  /// As it was given.
  const schedule::Table& table() const { return table_; }

  /// From now on every computation, and every wait for a message, is an event of `recorder`; null: none. It must
  /// outlive the passes. `replica` of so many tells the pipelines of one trace apart: no two messages of a trace have
  /// the same number.
  void record(trace::Recorder* recorder, int replica = 0, int replicas = 1) {
    recorder_ = recorder;
    replica_ = static_cast<std::uint64_t>(replica);
    replicas_ = static_cast<std::uint64_t>(replicas);
  }

  /// The most microbatches that were kept at a time in the last pass, of one chunk or over all: what the verifier says
  /// before (`schedule::peak_live`).
  schedule::Live peak(std::optional<int> chunk = std::nullopt) const {
    return chunk ? live_.peak()[static_cast<std::size_t>(*chunk)] : live_.peak().back();
  }

 private:
  static constexpr std::size_t count = Traits::count;
  static constexpr bool changes_rows = detail::changes_rows<Stage>();
  static constexpr bool saves = requires { typename Stage::Saved; };
  using Views = typename Traits::Views;
  using View = typename Traits::View;
  using Matrices = typename Traits::Matrices;
  using Rows = std::array<std::int64_t, count>;
  using Header = detail::MessageHeader<count>;
  using Buffer = detail::BoundaryBuffer<Element, ExecutionSpace, count>;
  using Buffers = detail::BoundaryBuffers<Element, ExecutionSpace, count>;
  using Program = detail::Program;
  using Direction = schedule::Direction;
  using Saved = typename detail::SavedOf<Stage>::type;

  static const schedule::Table& checked(const schedule::Table& table, const Communicator& pipeline,
                                        const std::vector<Stage*>& stages) {
    require(table.ranks() == pipeline.size(), "pipeline: the table is for ", table.ranks(), " ranks, but '",
            pipeline.name(), "' has ", pipeline.size());
    require(static_cast<int>(stages.size()) == table.chunks() && std::ranges::find(stages, nullptr) == stages.end(),
            "pipeline: the table has ", table.chunks(), " stages on a rank, but ",
            stages.size() - static_cast<std::size_t>(std::ranges::count(stages, nullptr)), " are given");
    return table;
  }

  void add_boundary(int boundary, const Matrices& matrices, int neighbour) {
    for (const auto& matrix : matrices)
      require(matrix.columns >= 0, "pipeline: a matrix of ", matrix.columns, " columns behind stage ", boundary);
    for (const Direction direction : {Direction::forward, Direction::backward}) {
      Buffers& its = boundaries_[Program::row(boundary, direction)];
      const bool again = its.layout.columns != Rows{};
      const Rows before = its.layout.columns;
      for (std::size_t i = 0; i < count; ++i)
        its.layout.columns[i] = direction == Direction::forward || matrices[i].has_gradient ? matrices[i].columns : 0;
      require(!again || before == its.layout.columns, "pipeline: the stages ", boundary, " and ", boundary + 1,
              " do not agree on what lies between them");
      if (neighbour != pipeline_.rank()) its.peer = neighbour;
    }
  }

  void reserve(const Program& program) {
    for (std::size_t row = 0; row < boundaries_.size(); ++row)
      while (static_cast<int>(boundaries_[row].buffers.size()) < program.buffers[row])
        boundaries_[row].buffers.emplace_back(boundaries_[row].layout, rows_);
    for (std::size_t chunk = 0; chunk < stages_.size(); ++chunk)
      kept_[chunk].reserve(program.peak[chunk], [&] {
        if constexpr (saves)
          return stages_[chunk]->make_saved(rows_);
        else
          return Saved();
      });
  }

  /// What a stage throws is announced here, before the pending hand-offs are abandoned.
  template <class Ready, class GoesOn>
  LossSum run(const Program& program, const Context<ExecutionSpace>& context, std::span<const Microbatch> microbatches,
              Ready&& ready, GoesOn&& goes_on) {
    return pipeline_.guard([&] { return work(program, context, microbatches, ready, goes_on); });
  }

  template <class Ready, class GoesOn>
  LossSum work(const Program& program, Context<ExecutionSpace> context, std::span<const Microbatch> microbatches,
               Ready&& ready, GoesOn&& goes_on) {
    bool asked = false;
    drops_ = false;
    for (auto& kept : kept_) kept.reset();
    live_.reset();
    if constexpr (changes_rows) made_rows_.resize(stages_.size() * microbatches.size());
    for (const Microbatch& microbatch : microbatches)
      require(microbatch.rows() >= 0 && microbatch.rows() <= rows_, "pipeline: a microbatch of ", microbatch.rows(),
              " rows; the executor has room for 0 to ", rows_);
    ++pass_;
    std::size_t posted = 0;
    post(program, context, posted, program.posted_first);
    LossSum loss;
    for (const Program::Step& step : program.steps) {
      const auto m = static_cast<std::size_t>(step.action.microbatch);
      if (!schedule::traits(step.action.kind).computes()) {  // for a user's stage to take
        if constexpr (requires(Stage stage) { stage.perform(context, step.action); })
          stages_[static_cast<std::size_t>(step.action.chunk)]->perform(context, step.action);
        continue;
      }
      if (!asked && !schedule::computes_forward(step.action.kind)) {
        asked = true;
        drops_ = !goes_on();
      }
      const Microbatch& microbatch = microbatches[m];
      context.microbatch = step.action.microbatch;
      context.first_sample = microbatch.first_sample;
      if (step.receives) take(step, microbatches);
      post(program, context, posted, step.posted);
      loss += compute(step, context, microbatch, microbatches.size(), ready);
      context.poll();
    }
    for (Buffers& its : boundaries_)
      for (Buffer& buffer : its.buffers) buffer.wait();
    messages_before_ += boundaries_.size() * microbatches.size();
    return loss;
  }

  Buffer* buffer(int boundary, Direction direction, int number) {
    return number == Program::none
               ? nullptr
               : &boundaries_[Program::row(boundary, direction)].buffers[static_cast<std::size_t>(number)];
  }
  static int tag(int boundary, Direction direction) { return static_cast<int>(Program::row(boundary, direction)); }

  void post(const Program& program, const Context<ExecutionSpace>& context, std::size_t& posted, std::size_t end) {
    for (; posted < end; ++posted) {
      const auto& [boundary, direction, number] = program.receives[posted];
      buffer(boundary, direction, number)
          ->receive(context.execution, pipeline_, boundaries_[Program::row(boundary, direction)].peer,
                    tag(boundary, direction));
    }
  }

  /// The header of what is, or should be, in a buffer.
  Header header(int boundary, Direction direction, const Microbatch& microbatch, int number, const Rows& rows,
                std::int64_t room) const {
    Header header;
    header.pass = pass_;
    header.microbatch = number;
    header.backward = direction == Direction::backward ? 1 : 0;
    header.boundary = boundary;
    header.first_sample = microbatch.first_sample;
    header.room = room;
    header.rows = rows;
    header.columns = boundaries_[Program::row(boundary, direction)].layout.columns;
    return header;
  }
  static Rows all(std::int64_t rows) {
    Rows result;
    result.fill(rows);
    return result;
  }

  /// Waits for a step's input and looks at what it is.
  void take(const Program::Step& step, std::span<const Microbatch> microbatches) {
    const bool forward = schedule::computes_forward(step.action.kind);
    const Direction direction = forward ? Direction::forward : Direction::backward;
    const int boundary = forward ? step.below : step.stage, m = forward ? step.taken : step.action.microbatch;
    const Microbatch& microbatch = microbatches[static_cast<std::size_t>(m)];
    Buffer& its = *buffer(boundary, direction, forward ? step.input : step.output_gradient);
    if (recorder_ == nullptr) {
      its.wait();
    } else {
      trace::Span span(recorder_, "wait", step.action.microbatch, step.action.chunk, step.stage);
      its.wait();
      span.received(number(boundary, direction, m, microbatches.size()));
    }
    // Gradients have the shapes of what they belong to.
    Rows rows = all(microbatch.rows());
    std::int64_t room = microbatch.rows();
    if constexpr (changes_rows) {
      room = rows_;
      if (!forward) rows = made_rows(step, microbatches.size());
    }
    its.accept(header(boundary, direction, microbatch, m, rows, room), changes_rows && forward);
  }

  /// Of a message in traces; 0 is none.
  std::uint64_t number(int boundary, Direction direction, int microbatch, std::size_t microbatches) const {
    const std::uint64_t message =
        messages_before_ + Program::row(boundary, direction) * microbatches + static_cast<std::uint64_t>(microbatch);
    return message * replicas_ + replica_ + 1;
  }

  /// The rows of what a stage has handed on.
  Rows& made_rows(const Program::Step& step, std::size_t microbatches) {
    return made_rows_[static_cast<std::size_t>(step.action.chunk) * microbatches +
                      static_cast<std::size_t>(step.action.microbatch)];
  }

  /// The matrices of a buffer; without one, empty ones of so many rows.
  static Views views(const Buffer* buffer, std::int64_t rows) {
    return Traits::make([&](std::size_t i) {
      return buffer != nullptr ? buffer->matrix(i) : View(nullptr, static_cast<std::size_t>(rows), 0);
    });
  }

  template <class Ready>
  LossSum compute(const Program::Step& step, Context<ExecutionSpace>& context, const Microbatch& microbatch,
                  std::size_t microbatches, Ready&& ready) {
    using schedule::ActionKind;
    const schedule::KindTraits& kind = schedule::traits(step.action.kind);
    const int m = step.action.microbatch;
    const auto chunk = static_cast<std::size_t>(step.action.chunk);
    Stage& stage = *stages_[chunk];
    const std::int64_t rows = microbatch.rows(), room = changes_rows ? rows_ : rows;
    // Of what it makes.
    const Direction direction = kind.forward ? Direction::forward : Direction::backward;
    const int boundary = kind.forward ? step.stage : step.stage - 1;

    Buffer* const input = buffer(step.below, Direction::forward, step.input);
    Buffer* const output = buffer(step.stage, Direction::forward, step.output);
    Buffer* const input_gradient = buffer(step.stage - 1, Direction::backward, step.input_gradient);
    Buffer* const output_gradient = buffer(step.stage, Direction::backward, step.output_gradient);
    Buffer* const made = kind.forward ? output : input_gradient;
    if (made != nullptr) {
      if (step.sends) leave(*made, step);
      made->header = header(boundary, direction, microbatch, m, kind.forward ? all(room) : input->header.rows, room);
    }

    LossSum loss;
    {
      trace::Span span(recorder_, drops_ ? "dropped" : schedule::to_string(step.action.kind), m, step.action.chunk,
                       step.stage);
      auto& kept = kept_[chunk];
      if (kind.forward) {
        Saved& saved = kept.take(step.saved);
        live_.add(chunk, 1, 1);
        Views outputs = views(output, rows);
        if (!drops_) loss = detail::forward(stage, context, microbatch, views(input, rows), outputs, saved);
        if constexpr (changes_rows) {
          if (output != nullptr)
            made_rows(step, microbatches) = output->header.rows = detail::cut<Stage>(outputs, *output, step.stage);
        }
      } else if (!drops_) {
        if constexpr (PipelineStage<Stage>) {
          const auto tell = [&](const auto& parameter) {
            if (step.last_weight) ready(step.action.chunk, parameter);
          };
          Saved& saved = kept.of(step.saved);
          if (step.action.kind == ActionKind::backward)
            stage.backward(context, microbatch, views(output_gradient, rows), views(input_gradient, rows), saved, tell);
          else if (step.action.kind == ActionKind::backward_input)
            stage.backward_input(context, microbatch, views(output_gradient, rows), views(input_gradient, rows), saved);
          else
            stage.backward_weight(context, microbatch, saved, tell);
        }
      }
      if (step.sends) span.sent(number(boundary, direction, m, microbatches));
      const bool until_input = kind.input_gradient || (kind.forward && step.releases);
      if (until_input) kept.release_input(step.saved);
      live_.add(chunk, until_input ? -1 : 0, step.releases ? -1 : 0);
    }
    if (step.sends)
      made->send(context.execution, pipeline_, boundaries_[Program::row(boundary, direction)].peer,
                 tag(boundary, direction));
    return loss;
  }

  /// Waits until what was sent from a buffer has left it.
  void leave(Buffer& buffer, const Program::Step& step) {
    if (recorder_ == nullptr) return buffer.wait();
    if (buffer.test()) return;
    trace::Span span(recorder_, "wait", step.action.microbatch, step.action.chunk, step.stage);
    buffer.wait();
  }

  Communicator pipeline_;
  schedule::Table table_;
  std::vector<Stage*> stages_;
  std::int64_t rows_;
  Program main_;
  std::optional<Program> evaluation_;
  std::vector<Buffers> boundaries_;  ///< by Program::row
  std::vector<detail::KeptByStage<Saved>> kept_;
  std::vector<Rows> made_rows_;
  detail::LiveCount live_;
  std::int64_t pass_ = 0;
  bool drops_ = false;  ///< what is left of this pass is not computed
  trace::Recorder* recorder_ = nullptr;
  std::uint64_t replica_ = 0, replicas_ = 1, messages_before_ = 0;
};

}  // namespace kerkis
