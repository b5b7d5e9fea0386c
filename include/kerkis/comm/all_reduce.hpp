// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <source_location>

#include <kerkis/comm/buffer.hpp>
#include <kerkis/comm/reduction.hpp>
#include <kerkis/comm/request.hpp>

namespace kerkis {

struct AllReduceOptions {
  Reduction operation = Reduction::sum;
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};

/// Element-wise reduction of `view` over all ranks, in place; every rank gets the same bits. Extents are equal on all
/// ranks. `execution` is fenced first; the View belongs to the operation until the request is complete. Throws
/// InputError for a View with gaps, CommError if MPI fails.
template <class ExecutionSpace, class View>
Request all_reduce(const ExecutionSpace& execution, const Communicator& communicator, const View& view,
                   AllReduceOptions options = {}, std::source_location where = std::source_location::current()) {
  static_assert(comm::is_writable<View>, "kerkis: all_reduce writes its View, which must not be const");
  using Element = typename View::non_const_value_type;
  const comm::Buffer<View> buffer(view, "all_reduce");
  if (communicator.size() == 1) return {};
  execution.fence("kerkis::all_reduce");
  return Request::start(
      communicator, {.name = "all_reduce", .type = buffer.type.name, .count = view.size(), .where = where},
      options.deadline, comm::keep_alive(view),
      [buffer, operation = comm::native_operation<Element>(communicator, options.operation),
       native = communicator.native()](MPI_Request* request) {
        return MPI_Iallreduce(MPI_IN_PLACE, buffer.data, buffer.count, buffer.type.native, operation, native, request);
      });
}

}  // namespace kerkis
