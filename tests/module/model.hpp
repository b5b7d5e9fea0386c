// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kerkis/core/partition.hpp>
#include <kerkis/module/parameter_store.hpp>

#include <vector>

/// A bare list of parameters, as they lie on one of several tensor ranks.
template <class T>
struct Model {
  using Parameter = kerkis::Parameter<T, Kokkos::DefaultHostExecutionSpace>;
  std::vector<Parameter> list;

  template <class F>
  void for_each_parameter(F&& f) {
    for (auto& parameter : list) f(parameter);
  }

  static Model make(int tensor_rank, int tensor_ranks) {
    using kerkis::Initial;
    const auto share = [&](std::int64_t extent) { return kerkis::partition(extent, tensor_ranks, tensor_rank); };
    return {{Parameter::sliced("rows", {5, 7}, 0, share(5), Initial::normal(0.02), true),
             Parameter::sliced("columns", {3, 8}, 1, share(8), Initial::normal(1), true),
             Parameter::whole("gain", {9}, Initial::constant(1), false),
             Parameter::sliced("bias", {2}, 0, share(2), Initial::constant(0), false),
             Parameter::whole("large", {200, 201}, Initial::normal(0.5), true)}};
  }
};
