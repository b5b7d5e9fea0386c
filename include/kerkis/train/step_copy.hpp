// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>

#include <kerkis/module/parameter_store.hpp>

namespace kerkis {

/// All that a step of the optimizer changes, as it was before: the values and gradients of a store and the optimizer's
/// state. A step that turns out to be wrong is taken back to the last bit. Allocates when it is made; SGD with momentum
/// at the first `save`.
template <class T, class ExecutionSpace, class State>
class StepCopy {
 public:
  /// For this store; copies nothing yet.
  explicit StepCopy(const ParameterStore<T, ExecutionSpace>& store)
      : values_("kerkis::copy::values", store.values().extent(0)),
        gradients_("kerkis::copy::gradients", store.gradients().extent(0)), state_(store) {}

  /// On `execution`, without a fence.
  void save(const ExecutionSpace& execution, const ParameterStore<T, ExecutionSpace>& store, const State& state) {
    Kokkos::deep_copy(execution, values_, store.values());
    Kokkos::deep_copy(execution, gradients_, store.gradients());
    state_.copy(execution, state);
  }
  /// Puts back what `save` has seen last; on `execution`, without a fence.
  void restore(const ExecutionSpace& execution, const ParameterStore<T, ExecutionSpace>& store, State& state) const {
    Kokkos::deep_copy(execution, store.values(), values_);
    Kokkos::deep_copy(execution, store.gradients(), gradients_);
    state.copy(execution, state_);
  }

  /// Of the copies, on this rank.
  std::size_t bytes() const { return (values_.size() + gradients_.size()) * sizeof(T) + state_.bytes(); }

 private:
  Vector<T, ExecutionSpace> values_, gradients_;
  State state_;
};

}  // namespace kerkis
