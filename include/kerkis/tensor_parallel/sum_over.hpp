// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>

#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/module/context.hpp>

namespace kerkis {

/// Sums a contiguous View over the tensor axis, in place. Nothing happens on one rank, nor without elements: extents
/// are equal on the ranks of the axis.
template <class ExecutionSpace, class View>
void sum_over(const Context<ExecutionSpace>& context, const Communicator& tensor, const View& view) {
  if (tensor.size() == 1 || view.size() == 0) return;
  const Kokkos::View<typename View::value_type*, typename View::memory_space> flat(view.data(), view.size());
  all_reduce(context.execution, tensor, flat).wait();
}

}  // namespace kerkis
