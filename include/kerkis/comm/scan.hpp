// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <source_location>
#include <type_traits>

#include <kerkis/comm/element_wise.hpp>

namespace kerkis {

/// Of `scan`. What holds for every operation (buffers, order, progress, failure) is in docs/contract.md.
struct ScanOptions {
  Reduction operation = Reduction::sum;   ///< unless a functor is given
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};

/// Element-wise reduction of the `view` of this rank and all ranks before it, in place. Extents are equal on all ranks.
/// Half types are reduced in float and rounded once. `execution` is fenced first; the View belongs to the operation
/// until the request is complete. Throws InputError if the element type does not have the operation, CommError if MPI
/// fails.
template <class Functor = comm::Named, class ExecutionSpace, class View>
Request scan(const ExecutionSpace& execution, const Communicator& communicator, const View& view,
             ScanOptions options = {}, std::source_location where = std::source_location::current()) {
  const comm::ElementWise ranks{&MPI_Iscan, "scan", "kerkis::scan", false, options.operation, options.deadline, where};
  return ranks.in_place<Functor>(execution, communicator, view);
}

/// The same from `send`, which is only read, to `receive`, which has as many elements and no memory in common with it.
template <class Functor = comm::Named, class ExecutionSpace, class Send, class Receive>
  requires(!std::is_convertible_v<Receive, ScanOptions>)
Request scan(const ExecutionSpace& execution, const Communicator& communicator, const Send& send,
             const Receive& receive, ScanOptions options = {},
             std::source_location where = std::source_location::current()) {
  comm::check_pair<Send, Receive>();
  const comm::ElementWise ranks{&MPI_Iscan, "scan", "kerkis::scan", false, options.operation, options.deadline, where};
  comm::check_apart({"scan", where}, send, receive);
  return ranks.between<Functor, comm::Access::write>(execution, communicator, send, receive);
}

}  // namespace kerkis
