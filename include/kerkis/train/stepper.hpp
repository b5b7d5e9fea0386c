// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>

#include <kerkis/core/error.hpp>
#include <kerkis/data_parallel/gradient_reducer.hpp>
#include <kerkis/module/parameter_store.hpp>
#include <kerkis/train/step_copy.hpp>

namespace kerkis {

/// What one step did. Means are over the targets of the whole step, over all ranks.
struct StepReport {
  double loss = 0;           ///< mean, before the update
  double gradient_norm = 0;  ///< of the mean gradient, before clipping
  double learning_rate = 0;  ///< the optimizer's, scaled by the schedule
  double weight = 0;         ///< the number of targets; with 0 nothing was updated
  std::int64_t step = 0;     ///< which one, from 1; 0: there has been none yet
};

/// Gradients of the loss sum over all ranks, finished: they may be read (as sums) until they are applied.
class TotalGradients {
 public:
  /// `loss`: the sum over the targets; `weight`: their number; `squares`: the sum of the gradients' squares.
  TotalGradients(FinishedGradients finished, double loss, double weight, double squares)
      : finished_(finished), loss_(loss), weight_(weight), squares_(squares) {}

  /// The mean.
  double loss() const { return weight_ > 0 ? loss_ / weight_ : 0; }
  /// Of the mean gradient.
  double norm() const { return weight_ > 0 ? std::sqrt(squares_) / weight_ : 0; }
  /// The number of targets.
  double weight() const { return weight_; }
  /// What an optimizer asks for.
  const FinishedGradients& finished() const { return finished_; }

 private:
  FinishedGradients finished_;
  double loss_, weight_, squares_;
};

/// The steps of an optimizer on the parameters of a store, with clipping: one at a time, or early, before the totals
/// are known, and then validated (see Trainer). All on `execution`, without a fence.
template <class T, class Space, class Optimizer>
class Stepper {
  using State = typename Optimizer::template State<T, Space>;

 public:
  /// `clip` and `schedule`: those of TrainerOptions. `with_copy`: early steps are possible.
  Stepper(const ParameterStore<T, Space>& store, Optimizer optimizer, double clip,
          std::function<double(std::int64_t)> schedule, bool with_copy)
      : optimizer_(std::move(optimizer)), clip_(clip), schedule_(std::move(schedule)), state_(store) {
    require(clip_ >= 0, "trainer: a clipping norm of ", clip_, "; 0 is the least");
    if (with_copy) copy_.emplace(store);
  }

  /// Throws Error, and changes no parameter, if they are not finite.
  StepReport apply(const Space& execution, const ParameterStore<T, Space>& store, const TotalGradients& gradients) {
    const StepReport report = report_of(gradients, learning_rate(), step_ + 1);
    if (!is_finite(report)) {
      Kokkos::deep_copy(execution, store.gradients(), T(0));
      throw Error(message("step ", report.step, ": the loss is ", report.loss, " and the gradient norm ",
                          report.gradient_norm, "; this step has changed no parameter"));
    }
    update(execution, store, gradients.finished(), report.weight, clipping(report), report.learning_rate);
    trusts_ = clipping(report) == 1;
    return last_ = report;
  }

  /// As if the totals were finite and not to be clipped; what may be wrong about it is in the copy.
  void apply_early(const Space& execution, const ParameterStore<T, Space>& store, const FinishedGradients& finished,
                   double weight) {
    copy_->save(execution, store, state_);
    early_ = Early{finished, weight, learning_rate()};
    update(execution, store, finished, weight, 1, early_->learning_rate);
  }

  /// Whether the early step stands. If not, it has been taken back and taken again with these totals of it: as `apply`.
  bool validate(const Space& execution, const ParameterStore<T, Space>& store, const TotalGradients& totals) {
    const StepReport report = report_of(totals, early_->learning_rate, step_);
    if (is_finite(report) && clipping(report) == 1 && report.weight == early_->weight) {
      early_.reset();
      last_ = report;
      return true;
    }
    withdraw(execution, store);
    apply(execution, store, totals);
    trusts_ = false;
    return false;
  }

  /// Takes back an early step that is not validated.
  void withdraw(const Space& execution, const ParameterStore<T, Space>& store) {
    if (!early_) return;
    copy_->restore(execution, store, state_);
    --step_;
    early_.reset();
  }

  /// The gradients of an early step that is not validated; else null.
  const FinishedGradients* early() const { return early_ ? &early_->finished : nullptr; }
  /// Whether early steps are possible.
  bool has_copy() const { return copy_.has_value(); }
  /// Whether the next step is likely to stand if it is early.
  bool trusts() const { return trusts_; }
  /// Of the last step that is not early any more.
  const StepReport& last() const { return last_; }
  /// How many have been taken, early ones too.
  std::int64_t steps() const { return step_; }
  /// Of the optimizer's state and the copy.
  std::size_t bytes() const { return state_.bytes() + (copy_ ? copy_->bytes() : 0); }

 private:
  struct Early {
    FinishedGradients finished;
    double weight, learning_rate;
  };

  double learning_rate() const { return optimizer_.learning_rate * (schedule_ ? schedule_(step_) : 1); }
  static StepReport report_of(const TotalGradients& gradients, double rate, std::int64_t step) {
    return {gradients.loss(), gradients.norm(), rate, gradients.weight(), step};
  }
  static bool is_finite(const StepReport& report) {
    return std::isfinite(report.loss) && std::isfinite(report.gradient_norm);
  }
  /// The factor on the gradients.
  double clipping(const StepReport& report) const {
    return clip_ > 0 && report.gradient_norm > clip_ ? clip_ / report.gradient_norm : 1;
  }
  void update(const Space& execution, const ParameterStore<T, Space>& store, const FinishedGradients& finished,
              double weight, double factor, double rate) {
    if (weight > 0)
      state_.step(execution, optimizer_, store, finished, factor / weight, rate);
    else
      Kokkos::deep_copy(execution, store.gradients(), T(0));
    ++step_;
  }

  Optimizer optimizer_;
  double clip_;
  std::function<double(std::int64_t)> schedule_;
  State state_;
  std::optional<StepCopy<T, Space, State>> copy_;
  std::optional<Early> early_;
  bool trusts_ = true;
  StepReport last_;
  std::int64_t step_ = 0;
};

}  // namespace kerkis
