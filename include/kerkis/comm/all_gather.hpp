// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <source_location>

#include <kerkis/comm/buffer.hpp>
#include <kerkis/comm/request.hpp>

namespace kerkis {

struct AllGatherOptions {
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};

/// Puts the `send` of every rank, in the order of ranks, in the `receive` of every rank: receive.size() = size() ·
/// send.size(). `execution` is fenced first; both Views belong to the operation until the request is complete. Throws
/// InputError if the sizes do not match or a View has gaps, CommError if MPI fails.
template <class ExecutionSpace, class Send, class Receive>
Request all_gather(const ExecutionSpace& execution, const Communicator& communicator, const Send& send,
                   const Receive& receive, AllGatherOptions options = {},
                   std::source_location where = std::source_location::current()) {
  static_assert(comm::is_writable<Receive>, "kerkis: all_gather writes its second View, which must not be const");
  static_assert(std::is_same_v<typename Send::non_const_value_type, typename Receive::value_type>,
                "kerkis: all_gather takes two Views of one element type");
  const comm::Buffer<Send> from(send, "all_gather");
  const comm::Buffer<Receive> to(receive, "all_gather");
  require(receive.size() == send.size() * static_cast<std::size_t>(communicator.size()), "all_gather over ",
          communicator.size(), " ranks: blocks of ", send.size(), " elements do not fill ", receive.size());
  if (communicator.size() == 1) {
    comm::copy(execution, from, to);
    return {};
  }
  execution.fence("kerkis::all_gather");
  return Request::start(communicator,
                        {.name = "all_gather", .type = from.type.name, .count = receive.size(), .where = where},
                        options.deadline, comm::keep_alive(send, receive),
                        [from, to, native = communicator.native()](MPI_Request* request) {
                          return MPI_Iallgather(from.data, from.count, from.type.native, to.data, from.count,
                                                to.type.native, native, request);
                        });
}

}  // namespace kerkis
