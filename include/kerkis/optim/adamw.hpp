// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include <kerkis/data_parallel/gradient_reducer.hpp>
#include <kerkis/module/parameter_store.hpp>

namespace kerkis::optim {

namespace detail {
/// One pass over value, gradient and both moments of a piece; leaves the gradient zero for the next step.
template <class T, class ExecutionSpace>
struct AdamWKernel {
  Kokkos::View<const ParameterPiece*, typename ExecutionSpace::memory_space> pieces;
  T *values, *gradients, *first, *second;
  T gradient_scale, beta1, beta2, epsilon, rate, root_correction2, kept;

  KOKKOS_FUNCTION void operator()(std::size_t p) const {
    const ParameterPiece piece = pieces(p);
    T* const value = values + piece.begin;
    T* const gradient = gradients + piece.begin;
    T* const m = first + piece.begin;
    T* const v = second + piece.begin;
    const T keep = piece.decays ? kept : T(1);
    for (std::int64_t i = 0; i < piece.size; ++i) {
      const T g = gradient[i] * gradient_scale;
      m[i] = beta1 * m[i] + (T(1) - beta1) * g;
      v[i] = beta2 * v[i] + (T(1) - beta2) * g * g;
      // abs changes nothing, but tells compilers that sqrt cannot fail, so that the loop vectorises.
      value[i] = value[i] * keep - rate * m[i] / (Kokkos::sqrt(Kokkos::abs(v[i])) * root_correction2 + epsilon);
      gradient[i] = T(0);
    }
  }
};
}  // namespace detail

/// AdamW: Loshchilov and Hutter 2019, arXiv:1711.05101, with bias-corrected moments: decay is decoupled and applies to
/// matrices only.
struct AdamW {
  double learning_rate = 1e-3;  ///< which a schedule may scale, step by step
  double beta1 = 0.9;           ///< the share of the first moment that a step keeps
  double beta2 = 0.95;          ///< the share of the second moment that a step keeps
  double epsilon = 1e-8;        ///< added to the root of the second moment
  double weight_decay = 0.1;    ///< times the learning rate: the share of a matrix's values that a step takes away

  /// Calls f(name, value) with each of them.
  template <class F>
  void for_each_option(F&& f) const {
    f("learning_rate", learning_rate), f("beta1", beta1), f("beta2", beta2), f("epsilon", epsilon);
    f("weight_decay", weight_decay);
  }

  /// The moments of every parameter of a store. 2 sizeof(T) bytes per parameter more.
  template <class T, class ExecutionSpace>
  class State {
   public:
    /// Moments of zero for every parameter of `store`.
    explicit State(const ParameterStore<T, ExecutionSpace>& store)
        : first_("kerkis::adamw::first", store.values().extent(0)),
          second_("kerkis::adamw::second", store.values().extent(0)) {}

    /// Updates the values with gradient_scale · gradient, then sets the gradients to zero. All on `execution`, without
    /// a fence.
    void step(const ExecutionSpace& execution, const AdamW& settings, const ParameterStore<T, ExecutionSpace>& store,
              const FinishedGradients&, double gradient_scale, double step_rate) {
      ++steps_;
      const double correction1 = 1 - std::pow(settings.beta1, steps_);
      const double correction2 = 1 - std::pow(settings.beta2, steps_);
      Kokkos::parallel_for("kerkis::adamw", Kokkos::RangePolicy<ExecutionSpace>(execution, 0, store.pieces().extent(0)),
                           detail::AdamWKernel<T, ExecutionSpace>{
                               store.pieces(), store.values().data(), store.gradients().data(), first_.data(),
                               second_.data(), T(gradient_scale), T(settings.beta1), T(settings.beta2),
                               T(settings.epsilon), T(step_rate / correction1), T(1 / std::sqrt(correction2)),
                               T(1 - step_rate * settings.weight_decay)});
    }

    /// Becomes a copy of `other`, the state of the same store; on `execution`, without a fence.
    void copy(const ExecutionSpace& execution, const State& other) {
      Kokkos::deep_copy(execution, first_, other.first_);
      Kokkos::deep_copy(execution, second_, other.second_);
      steps_ = other.steps_;
    }
    /// Of the moments, on this rank.
    std::size_t bytes() const { return (first_.size() + second_.size()) * sizeof(T); }

   private:
    Vector<T, ExecutionSpace> first_, second_;
    int steps_ = 0;
  };
};

}  // namespace kerkis::optim
