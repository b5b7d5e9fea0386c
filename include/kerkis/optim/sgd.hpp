// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>

#include <kerkis/data_parallel/gradient_reducer.hpp>
#include <kerkis/module/parameter_store.hpp>

namespace kerkis::optim {

namespace detail {
template <class T, class ExecutionSpace>
struct SgdKernel {
  Kokkos::View<const ParameterPiece*, typename ExecutionSpace::memory_space> pieces;
  T *values, *gradients, *velocities;  // velocities: null without momentum
  T gradient_scale, momentum, rate, decay;

  KOKKOS_FUNCTION void operator()(std::size_t p) const {
    const ParameterPiece piece = pieces(p);
    T* const value = values + piece.begin;
    T* const gradient = gradients + piece.begin;
    const T pull = piece.decays ? decay : T(0);
    if (velocities == nullptr) {
      for (std::int64_t i = 0; i < piece.size; ++i) {
        value[i] -= rate * (gradient[i] * gradient_scale + pull * value[i]);
        gradient[i] = T(0);
      }
    } else {
      T* const velocity = velocities + piece.begin;
      for (std::int64_t i = 0; i < piece.size; ++i) {
        velocity[i] = momentum * velocity[i] + gradient[i] * gradient_scale + pull * value[i];
        value[i] -= rate * velocity[i];
        gradient[i] = T(0);
      }
    }
  }
};
}  // namespace detail

/// Stochastic gradient descent with momentum (Polyak 1964; the velocity is momentum · velocity + gradient), and weight
/// decay as an L2 penalty on matrices.
struct Sgd {
  double learning_rate = 1e-2;  ///< which a schedule may scale, step by step
  double momentum = 0;          ///< the share of the velocity that a step keeps
  double weight_decay = 0;      ///< times the value, added to the gradient of a matrix

  /// Calls f(name, value) with each of them.
  template <class F>
  void for_each_option(F&& f) const {
    f("learning_rate", learning_rate), f("momentum", momentum), f("weight_decay", weight_decay);
  }

  /// The velocities, if there is momentum.
  template <class T, class ExecutionSpace>
  class State {
   public:
    /// For `store`. Velocities get their memory in the first step that has momentum.
    explicit State(const ParameterStore<T, ExecutionSpace>& store) : size_(store.values().extent(0)) {}

    /// Updates the values with gradient_scale · gradient, then sets the gradients to zero. All on `execution`, without
    /// a fence.
    void step(const ExecutionSpace& execution, const Sgd& settings, const ParameterStore<T, ExecutionSpace>& store,
              const FinishedGradients&, double gradient_scale, double step_rate) {
      if (settings.momentum != 0 && velocity_.extent(0) != size_)
        velocity_ = Vector<T, ExecutionSpace>("kerkis::sgd::velocity", size_);
      Kokkos::parallel_for(
          "kerkis::sgd", Kokkos::RangePolicy<ExecutionSpace>(execution, 0, store.pieces().extent(0)),
          detail::SgdKernel<T, ExecutionSpace>{store.pieces(), store.values().data(), store.gradients().data(),
                                               settings.momentum != 0 ? velocity_.data() : nullptr, T(gradient_scale),
                                               T(settings.momentum), T(step_rate), T(settings.weight_decay)});
    }

    /// Becomes a copy of `other`, the state of the same store; on `execution`, without a fence.
    void copy(const ExecutionSpace& execution, const State& other) {
      if (other.velocity_.extent(0) == 0) {  // has not moved yet
        Kokkos::deep_copy(execution, velocity_, T(0));
      } else {
        if (velocity_.extent(0) == 0) velocity_ = Vector<T, ExecutionSpace>("kerkis::sgd::velocity", size_);
        Kokkos::deep_copy(execution, velocity_, other.velocity_);
      }
    }
    /// Of the velocities, on this rank.
    std::size_t bytes() const { return velocity_.size() * sizeof(T); }

   private:
    std::size_t size_;
    Vector<T, ExecutionSpace> velocity_;
  };
};

}  // namespace kerkis::optim
