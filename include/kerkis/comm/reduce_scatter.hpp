// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <source_location>

#include <kerkis/comm/buffer.hpp>
#include <kerkis/comm/reduction.hpp>
#include <kerkis/comm/request.hpp>

namespace kerkis {

struct ReduceScatterOptions {
  Reduction operation = Reduction::sum;
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};

/// Reduces `send`, which is size() blocks of receive.size() elements, element by element; rank r gets block r in
/// `receive`. `execution` is fenced first; both Views belong to the operation until the request is complete. Throws
/// InputError if the sizes do not match or a View has gaps, CommError if MPI fails.
template <class ExecutionSpace, class Send, class Receive>
Request reduce_scatter(const ExecutionSpace& execution, const Communicator& communicator, const Send& send,
                       const Receive& receive, ReduceScatterOptions options = {},
                       std::source_location where = std::source_location::current()) {
  static_assert(comm::is_writable<Receive>, "kerkis: reduce_scatter writes its second View, which must not be const");
  static_assert(std::is_same_v<typename Send::non_const_value_type, typename Receive::value_type>,
                "kerkis: reduce_scatter takes two Views of one element type");
  using Element = typename Receive::non_const_value_type;
  const comm::Buffer<Send> from(send, "reduce_scatter");
  const comm::Buffer<Receive> to(receive, "reduce_scatter");
  require(send.size() == receive.size() * static_cast<std::size_t>(communicator.size()), "reduce_scatter over ",
          communicator.size(), " ranks: ", send.size(), " elements do not make blocks of ", receive.size());
  if (communicator.size() == 1) {
    comm::copy(execution, from, to);
    return {};
  }
  execution.fence("kerkis::reduce_scatter");
  return Request::start(
      communicator, {.name = "reduce_scatter", .type = from.type.name, .count = send.size(), .where = where},
      options.deadline, comm::keep_alive(send, receive),
      [from, to, operation = comm::native_operation<Element>(communicator, options.operation),
       native = communicator.native()](MPI_Request* request) {
        return MPI_Ireduce_scatter_block(from.data, to.data, to.count, from.type.native, operation, native, request);
      });
}

}  // namespace kerkis
