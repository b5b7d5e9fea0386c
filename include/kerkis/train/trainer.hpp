// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/core/partition.hpp>
#include <kerkis/core/recorder.hpp>
#include <kerkis/data_parallel/gradient_reducer.hpp>
#include <kerkis/mesh/mesh.hpp>
#include <kerkis/module/parameter_store.hpp>
#include <kerkis/pipeline/executor.hpp>
#include <kerkis/policy/data_parallel.hpp>
#include <kerkis/policy/pipeline.hpp>
#include <kerkis/train/gradient_norm.hpp>
#include <kerkis/train/stepper.hpp>
#include <kerkis/train/trainer_options.hpp>

namespace kerkis {

/// Trains a model under the plan of its mesh. Every rank calls the same members in the same order. The model, which
/// must outlive the trainer, gives its stages, the schedule's table, its parameters and what is shared between stages
/// (see nn::Gpt).
///
/// A step: forward and backward of all microbatches under the pipeline's schedule, gradients summed over the data axis
/// as they become ready, one small reduction of (loss, weight, squared norm) over all ranks, one division, one pass of
/// the optimizer. What a rank throws is announced to the others, so that none waits for it.
///
/// With post-validation (Qi et al. 2024, "Zero bubble pipeline parallelism", arXiv:2401.10241, section 4) the reduction
/// does not hold the ranks of a pipeline together: each takes the optimizer's step as soon as its own gradients are
/// complete, as if they were finite and not to be clipped, and begins the next step. Before its first backward pass
/// there, at the latest, it has the sums, the same on all ranks. If they say otherwise, each rank takes its step back
/// to the last bit from a copy (of values, gradients and the optimizer's state: as much memory again), takes the right
/// one, and the forward passes begun meanwhile are dropped and made again: the numbers are always those of training
/// without it. Norms above the limit come in runs: the step after a clipped one waits as without it. A parameter that
/// two ranks share (tied weights whose stages are not on one rank) still makes these two wait for each other.
///
/// A step's report is then known during the next: `step` returns that of the step before, `finish` the last one, and a
/// step that is not finite throws from the call after it. `finish` also makes the parameters final; `evaluate`,
/// `compute_gradients`, `context` and the destructor do that too. When anything is thrown, a step that has not been
/// validated on a rank yet is taken back there.
template <class Plan, class Place, class Model, class Optimizer>
class Trainer {
  using T = typename Model::Element;
  using Space = typename Model::ExecutionSpace;
  using Stage = typename Model::Stage;
  using Batch = typename Stage::Microbatch;
  using DataPolicy = typename plan_traits<Plan>::template on<axis::Data>;
  using PipelinePolicy = typename plan_traits<Plan>::template on<axis::Pipeline>;

 public:
  /// Gives the model's parameters their memory and initial values. Collective over the mesh. Throws InputError, before
  /// anything is done, if an option of the trainer or the optimizer makes no sense, or is not the same on every rank.
  Trainer(const Mesh<Plan, Place>& mesh, Model& model, Optimizer optimizer, TrainerOptions options = {},
          Space execution = Space())
      : model_(model), options_(detail::checked(mesh.world(), optimizer, std::move(options))),
        execution_(std::move(execution)), world_(mesh.world()), pipeline_(mesh.template communicator<axis::Pipeline>()),
        replica_(mesh.template coordinate<axis::Data>() * mesh.template extent<axis::Tensor>() +
                 mesh.template coordinate<axis::Tensor>()),
        replicas_(mesh.template extent<axis::Data>() * mesh.template extent<axis::Tensor>()),
        is_counted_(mesh.template coordinate<axis::Data>() == 0),
        is_scored_(mesh.template coordinate<axis::Tensor>() == 0), microbatches_(microbatches_of(mesh, options_)),
        store_(model, mesh.template coordinate<axis::Tensor>()), chunks_(chunk_ranges()),
        reducer_(mesh.template communicator<axis::Data>(), store_, chunks_, bucket_bytes()), squares_(store_),
        stepper_(store_, std::move(optimizer), options_.clip, options_.schedule,
                 options_.post_validation && pipeline_.size() > 1),
        sums_("kerkis::sums"), expected_weight_("kerkis::expected_weight") {
    for (const auto& shared : model_.shared()) reducer_.share(shared.sharers, shared.parameter->gradient);
    store_.initialise(options_.seed);
  }

  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  /// After a failure MPI may still write to the buffers of pending operations: they are leaked.
  ~Trainer() {
    if (stepper_.early() != nullptr && !world_.poisoned() && std::uncaught_exceptions() == 0) {
      try {
        finish();
      } catch (const std::exception& error) {
        comm::report_unheard("a trainer was destroyed", error);
      }
    }
    stepper_.withdraw(execution_, store_);
    if (!world_.poisoned()) return;
    comm::leak(std::move(workspace_));
    comm::leak(std::move(executor_));
    comm::leak(std::move(store_));
    comm::leak(std::move(sums_));
  }

  /// One optimizer step on this replica's share of a batch. Throws Error on every rank, and changes no parameter, if
  /// the loss or a gradient is not finite. Returns what this step did; with post-validation over several pipeline
  /// ranks, what the one before did.
  StepReport step(const Batch& batch) {
    return guard([&] { return stepper_.has_copy() ? step_early(batch) : apply(compute(batch)); });
  }

  /// What the last step did, which is final after this call.
  StepReport finish() {
    return guard([&] {
      validate();
      return stepper_.last();
    });
  }

  using Gradients = TotalGradients;  ///< what goes from the first half of a step to the second

  /// The first half of a step.
  Gradients compute_gradients(const Batch& batch) {
    return guard([&] {
      validate();
      return compute(batch);
    });
  }
  /// The second half.
  StepReport apply_gradients(const Gradients& gradients) {
    return guard([&] { return apply(gradients); });
  }

  /// The mean loss over this replica's share and those of the others, without dropout. Nothing is changed. Throws Error
  /// on every rank if it is not finite.
  double evaluate(const Batch& batch) {
    return guard([&] {
      validate();
      prepare(batch);
      const std::int64_t parts = std::max<std::int64_t>(1, (batch.rows() + rows_ - 1) / rows_);
      cut(batch, parts);
      const LossSum loss = executor_->evaluate(make_context(Mode::evaluation), parts_);
      start_sums(loss, 0);
      wait_for_sums();
      const double mean = sums_(1) > 0 ? sums_(0) / sums_(1) : 0;
      if (!std::isfinite(mean)) throw Error(message("after step ", steps(), ": the validation loss is ", mean));
      return mean;
    });
  }

  /// Records the computations of the pipeline, its waits and messages, the rest of the gradients' reduction and the
  /// optimizer, from now on; null: nothing. The recorder must outlive what it records.
  void record(trace::Recorder* recorder) {
    recorder_ = recorder;
    if (executor_) record_pipeline();
  }

  /// With post-validation the values are final after `finish`.
  const ParameterStore<T, Space>& store() const { return store_; }
  /// Of one step, per data replica.
  int microbatches() const { return microbatches_; }
  /// How many have been taken, early ones too.
  std::int64_t steps() const { return stepper_.steps(); }
  /// Of values, gradients, the optimizer's state and their copy on this rank.
  std::size_t bytes() const {
    return (store_.values().size() + store_.gradients().size()) * sizeof(T) + stepper_.bytes();
  }

  /// A context for calls of the model outside a step, such as generation.
  Context<Space> context(Mode mode) {
    finish();
    return make_context(mode);
  }

 private:
  template <class F>
  decltype(auto) guard(F&& f) {
    return world_.guard([&]() -> decltype(auto) {
      try {
        return f();
      } catch (...) {
        stepper_.withdraw(execution_, store_);  // the others may be gone: nobody can say whether it was right
        throw;
      }
    });
  }
  Context<Space> make_context(Mode mode) {
    return {execution_, workspace_, world_, options_.seed, static_cast<std::uint32_t>(steps()), 0, 0, mode};
  }

  static int microbatches_of(const Mesh<Plan, Place>& mesh, const TrainerOptions& options) {
    int count = options.microbatches;
    if constexpr (!std::is_void_v<PipelinePolicy>) {
      if constexpr (PipelinePolicy::microbatches != dynamic) {
        constexpr int fixed = static_cast<int>(PipelinePolicy::microbatches);
        require(count == 0 || count == fixed, "trainer: ", count, " microbatches, but the plan says ", fixed);
        count = fixed;
      }
    }
    if (count == 0) count = mesh.template extent<axis::Pipeline>();
    require(count >= 1, "trainer: ", count, " microbatches: at least 1 is needed");
    return count;
  }
  static constexpr std::size_t bucket_bytes() {
    if constexpr (std::is_void_v<DataPolicy>)
      return std::size_t{4} << 20;
    else
      return DataPolicy::bucket_bytes;
  }

  /// Where each chunk's gradients lie in the flat array, which has them by chunk. A stage may have none.
  std::vector<Range> chunk_ranges() {
    const auto stages = model_.stages();
    std::vector<Range> ranges(stages.size());
    auto end = static_cast<std::int64_t>(store_.gradients().extent(0));
    for (std::size_t chunk = stages.size(); chunk-- > 0;) {
      std::int64_t begin = end;
      stages[chunk]->for_each_parameter(
          [&](const auto& parameter) { begin = std::min(begin, store_.offset(parameter)); });
      ranges[chunk] = {begin, end};
      end = begin;
    }
    return ranges;
  }

  /// The gradients of `parameter` and of all that its chunk declares after it are complete.
  void reduce_from(int chunk, const Parameter<T, Space>& parameter) {
    const Range all = chunks_[static_cast<std::size_t>(chunk)], range{store_.offset(parameter), all.end};
    if (range == all) complete_[static_cast<std::size_t>(chunk)] = true;
    for (const auto& borrowed : model_.borrowed())
      if (!complete_[static_cast<std::size_t>(borrowed.chunk)] && range.contains(store_.offset(*borrowed.parameter)))
        return;  // another stage is not done with it: the end of the step takes care of it
    reducer_.ready(execution_, range);
  }

  /// Makes the executor for the batch's size, at the first call or when a batch is larger than all before.
  void prepare(const Batch& batch) {
    const std::int64_t length = model_.context();
    require(batch.context == 0 || batch.context == length, "trainer: a batch has sequences of ", batch.context,
            " tokens, but the model's context is ", length);
    require(batch.rows() % length == 0 && batch.tokens.extent(0) == batch.targets.extent(0), "trainer: ", batch.rows(),
            " tokens and ", batch.targets.extent(0), " targets are not whole sequences of ", length);
    const std::int64_t rows = std::max(length, partition(batch.rows() / length, microbatches_, 0).size() * length);
    if (executor_ && rows <= rows_) return;
    rows_ = rows;
    executor_.reset();
    executor_.emplace(pipeline_, model_.table(microbatches_), model_.stages(), rows_);
    ++executors_;
    record_pipeline();
  }

  /// An executor counts its messages from 0: the next one, for larger batches, is another pipeline to the trace. The
  /// sizes of batches settle long before the numbers come round.
  void record_pipeline() {
    constexpr int most = 64;
    executor_->record(recorder_, replica_ + replicas_ * (executors_ % most), replicas_ * most);
  }

  void cut(const Batch& batch, std::int64_t parts) {
    const std::int64_t sequences = batch.rows() / model_.context();
    parts_.clear();
    for (std::int64_t part = 0; part < parts; ++part) {
      const Range range = partition(sequences, parts, part);
      parts_.push_back(batch.slice(range.begin, range.end, model_.context()));
    }
  }

  /// Forward and backward; validates the step before on the way.
  LossSum pass(const Batch& batch) {
    prepare(batch);
    cut(batch, microbatches_);
    bool stands = true;
    LossSum loss;
    do {
      complete_.assign(chunks_.size(), false);
      loss = executor_->train(
          make_context(Mode::training), parts_,
          [&](int chunk, const auto& parameter) { reduce_from(chunk, parameter); },
          [&] { return stands = validate(); });
    } while (!stands);
    return loss;
  }

  FinishedGradients finish_gradients() {
    const trace::Span span(recorder_, "gradient reduction");
    return reducer_.finish(execution_);
  }

  Gradients compute(const Batch& batch) {
    const LossSum loss = pass(batch);
    const FinishedGradients finished = finish_gradients();
    start_sums(loss, finished);
    return sums(finished);
  }

  StepReport step_early(const Batch& batch) {
    prepare(batch);
    Request weight;
    if (stepper_.trusts()) weight = expect_weight(batch);
    const LossSum loss = pass(batch);
    const StepReport before = stepper_.last();
    const FinishedGradients finished = finish_gradients();
    start_sums(loss, finished);
    if (stepper_.trusts()) {
      weight.wait();
      const trace::Span span(recorder_, "optimizer");
      stepper_.apply_early(execution_, store_, finished, expected_weight_(0));
    } else {
      apply(sums(finished));
    }
    return before;
  }

  /// The weight of this step's loss is needed before the last stage has computed it.
  Request expect_weight(const Batch& batch) {
    const schedule::Table& table = executor_->table();
    const bool has_loss = table.rank_of(table.stages() - 1) == pipeline_.rank();
    expected_weight_(0) = has_loss && is_scored_ ? static_cast<double>(batch.scored(execution_)) : 0;
    return all_reduce(execution_, world_, expected_weight_);
  }

  /// Whether the step before stands as it was taken; if not, it has been made right, or can't be and is thrown. The
  /// same on all ranks.
  bool validate() {
    const FinishedGradients* const early = stepper_.early();
    return early == nullptr || stepper_.validate(execution_, store_, sums(*early));
  }

  StepReport apply(const Gradients& gradients) {
    const trace::Span span(recorder_, "optimizer");
    return stepper_.apply(execution_, store_, gradients);
  }

  /// Adds up over all ranks what each has counted once.
  void start_sums(const LossSum& loss, double squares) {
    sums_(0) = is_scored_ ? loss.sum : 0;
    sums_(1) = is_scored_ ? loss.weight : 0;
    sums_(2) = squares;
    summing_ = all_reduce(execution_, world_, sums_);
  }
  void start_sums(const LossSum& loss, const FinishedGradients& finished) {
    start_sums(loss, is_counted_ ? squares_(execution_, store_, finished) : 0);
  }
  void wait_for_sums() {
    const trace::Span span(recorder_, "loss and norm");
    summing_.wait();
  }
  Gradients sums(const FinishedGradients& finished) {
    wait_for_sums();
    return {finished, sums_(0), sums_(1), sums_(2)};
  }

  Model& model_;
  TrainerOptions options_;
  Space execution_;
  Workspace<Space> workspace_;
  Communicator world_, pipeline_;
  int replica_, replicas_;  ///< of the pipeline
  bool is_counted_, is_scored_;
  int microbatches_;
  ParameterStore<T, Space> store_;
  std::vector<Range> chunks_;   ///< of gradients
  std::vector<bool> complete_;  ///< chunks, in this step
  GradientReducer<T, Space> reducer_;
  GradientSquares<T, Space> squares_;
  Stepper<T, Space, Optimizer> stepper_;
  Kokkos::View<double[3], Kokkos::HostSpace> sums_;
  Kokkos::View<double[1], Kokkos::HostSpace> expected_weight_;
  Request summing_;
  std::optional<PipelineExecutor<Stage>> executor_;
  std::vector<Batch> parts_;
  std::int64_t rows_ = 0;
  trace::Recorder* recorder_ = nullptr;
  int executors_ = 0;  ///< made so far
};

}  // namespace kerkis
