// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
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

namespace kerkis {

struct TrainerOptions {
  int microbatches = 0;    ///< per data replica, if the plan leaves them open; 0: one per pipeline rank
  double clip = 0;         ///< gradients are scaled by min(1, clip / norm); 0: never
  std::uint64_t seed = 1;  ///< of initial weights and dropout
  std::function<double(std::int64_t step)> schedule = {};  ///< a factor on the optimizer's learning rate; none: 1
};

/// What one step did. Means are over the targets of the whole step, over all ranks.
struct StepReport {
  double loss = 0;           ///< mean, before the update
  double gradient_norm = 0;  ///< of the mean gradient, before clipping
  double learning_rate = 0;
  double weight = 0;  ///< the number of targets; with 0 nothing was updated
};

/// Trains a model under the plan of its mesh. Every rank calls the same members in the same order. The model, which
/// must outlive the trainer, gives its stages, the schedule's table, its parameters and what is shared between stages
/// (see nn::Gpt).
///
/// A step: forward and backward of all microbatches under the pipeline's schedule, gradients summed over the data axis
/// as they become ready, one small reduction of (loss, weight, squared norm) over all ranks, one division, one pass of
/// the optimizer. What a rank throws is announced to the others, so that none waits for it.
template <class Plan, class Place, class Model, class Optimizer>
class Trainer {
  using T = typename Model::Element;
  using Space = typename Model::ExecutionSpace;
  using Stage = typename Model::Stage;
  using Batch = typename Stage::Microbatch;
  using DataPolicy = typename plan_traits<Plan>::template on<axis::Data>;
  using PipelinePolicy = typename plan_traits<Plan>::template on<axis::Pipeline>;

 public:
  /// Gives the model's parameters their memory and initial values.
  Trainer(const Mesh<Plan, Place>& mesh, Model& model, Optimizer optimizer, TrainerOptions options = {},
          Space execution = Space())
      : model_(model), optimizer_(std::move(optimizer)), options_(std::move(options)), execution_(std::move(execution)),
        world_(mesh.world()), pipeline_(mesh.template communicator<axis::Pipeline>()),
        replica_(mesh.template coordinate<axis::Data>() * mesh.template extent<axis::Tensor>() +
                 mesh.template coordinate<axis::Tensor>()),
        replicas_(mesh.template extent<axis::Data>() * mesh.template extent<axis::Tensor>()),
        is_counted_(mesh.template coordinate<axis::Data>() == 0),
        is_scored_(mesh.template coordinate<axis::Tensor>() == 0), microbatches_(microbatches_of(mesh, options_)),
        store_(model, mesh.template coordinate<axis::Tensor>()), chunks_(chunk_ranges()),
        reducer_(mesh.template communicator<axis::Data>(), store_, chunks_, bucket_bytes()), squares_(store_),
        state_(store_), sums_("kerkis::sums") {
    require(options_.clip >= 0, "trainer: a clipping norm of ", options_.clip, "; 0 is the least");
    for (const auto& shared : model_.shared()) reducer_.share(shared.sharers, shared.parameter->gradient);
    store_.initialise(options_.seed);
  }

  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  /// After a failure MPI may still write to the buffers of pending operations: they are leaked.
  ~Trainer() {
    if (!world_.poisoned()) return;
    comm::leak(std::move(workspace_));
    comm::leak(std::move(executor_));
    comm::leak(std::move(store_));
    comm::leak(std::move(sums_));
  }

  /// One optimizer step on this replica's share of a batch. Throws Error on every rank, and changes no parameter, if
  /// the loss or a gradient is not finite.
  StepReport step(const Batch& batch) {
    return world_.guard([&] {
      const Gradients gradients = compute(batch);
      return apply(gradients);
    });
  }

  /// Gradients of the loss sum over all ranks, finished: they may be read (as sums) until `apply`.
  class Gradients {
   public:
    double loss() const { return weight_ > 0 ? loss_ / weight_ : 0; }
    double norm() const { return weight_ > 0 ? std::sqrt(squares_) / weight_ : 0; }
    double weight() const { return weight_; }

   private:
    friend class Trainer;
    Gradients(FinishedGradients finished, double loss, double weight, double squares)
        : finished_(finished), loss_(loss), weight_(weight), squares_(squares) {}
    FinishedGradients finished_;
    double loss_, weight_, squares_;
  };

  /// The first half of a step.
  Gradients compute_gradients(const Batch& batch) {
    return world_.guard([&] { return compute(batch); });
  }
  /// The second half.
  StepReport apply_gradients(const Gradients& gradients) {
    return world_.guard([&] { return apply(gradients); });
  }

  /// The mean loss over this replica's share and those of the others, without dropout. Nothing is changed. Throws Error
  /// on every rank if it is not finite.
  double evaluate(const Batch& batch) {
    return world_.guard([&] {
      prepare(batch);
      const std::int64_t parts = std::max<std::int64_t>(1, (batch.rows() + rows_ - 1) / rows_);
      cut(batch, parts);
      const LossSum loss = executor_->evaluate(context(Mode::evaluation), parts_);
      const auto [sum, weight, none] = reduce(loss, 0);
      const double mean = weight > 0 ? sum / weight : 0;
      if (!std::isfinite(mean)) throw Error(message("after step ", step_, ": the validation loss is ", mean));
      return mean;
    });
  }

  /// Records the computations of the pipeline, its waits and messages, the rest of the gradients' reduction and the
  /// optimizer, from now on; null: nothing. The recorder must outlive what it records.
  void record(trace::Recorder* recorder) {
    recorder_ = recorder;
    if (executor_) record_pipeline();
  }

  const ParameterStore<T, Space>& store() const { return store_; }
  int microbatches() const { return microbatches_; }
  std::int64_t steps() const { return step_; }

  /// A context for calls of the model outside a step, such as generation.
  Context<Space> context(Mode mode) {
    return {execution_, workspace_, world_, options_.seed, static_cast<std::uint32_t>(step_), 0, 0, mode};
  }

 private:
  struct Sums {
    double loss, weight, squares;
  };

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

  Gradients compute(const Batch& batch) {
    prepare(batch);
    cut(batch, microbatches_);
    complete_.assign(chunks_.size(), false);
    const LossSum loss = executor_->train(context(Mode::training), parts_,
                                          [&](int chunk, const auto& parameter) { reduce_from(chunk, parameter); });
    const FinishedGradients finished = finish_gradients();
    const auto [sum, weight, squares] = reduce(loss, is_counted_ ? squares_(execution_, store_, finished) : 0);
    return {finished, sum, weight, squares};
  }

  FinishedGradients finish_gradients() {
    const trace::Span span(recorder_, "gradient reduction");
    return reducer_.finish(execution_);
  }

  StepReport apply(const Gradients& gradients) {
    const trace::Span span(recorder_, "optimizer");
    StepReport report{gradients.loss(), gradients.norm(), optimizer_.learning_rate, gradients.weight()};
    if (options_.schedule) report.learning_rate *= options_.schedule(step_);
    const bool finite = std::isfinite(report.loss) && std::isfinite(report.gradient_norm);
    if (!finite || report.weight == 0) Kokkos::deep_copy(execution_, store_.gradients(), T(0));
    if (!finite)
      throw Error(message("step ", step_ + 1, ": the loss is ", report.loss, " and the gradient norm ",
                          report.gradient_norm, "; this step has changed no parameter"));
    if (report.weight > 0) {
      const double factor =
          options_.clip > 0 && report.gradient_norm > options_.clip ? options_.clip / report.gradient_norm : 1;
      state_.step(execution_, optimizer_, store_, gradients.finished_, factor / report.weight, report.learning_rate);
    }
    ++step_;
    return report;
  }

  /// Adds up over all ranks what each has counted once.
  Sums reduce(const LossSum& loss, double squares) {
    const trace::Span span(recorder_, "loss and norm");
    sums_(0) = is_scored_ ? loss.sum : 0;
    sums_(1) = is_scored_ ? loss.weight : 0;
    sums_(2) = squares;
    all_reduce(execution_, world_, sums_).wait();
    return {sums_(0), sums_(1), sums_(2)};
  }

  Model& model_;
  Optimizer optimizer_;
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
  typename Optimizer::template State<T, Space> state_;
  Kokkos::View<double[3], Kokkos::HostSpace> sums_;
  std::optional<PipelineExecutor<Stage>> executor_;
  std::vector<Batch> parts_;
  std::int64_t rows_ = 0;
  std::int64_t step_ = 0;
  trace::Recorder* recorder_ = nullptr;
  int executors_ = 0;  ///< made so far
};

}  // namespace kerkis
