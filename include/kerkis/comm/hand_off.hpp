// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <source_location>

#include <kerkis/comm/buffer.hpp>
#include <kerkis/comm/request.hpp>

namespace kerkis {

struct SendOptions {
  int to = 0;
  int tag = 0;
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};
struct ReceiveOptions {
  int from = 0;
  int tag = 0;
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};

/// Sends `view` to rank `to`, which receives as many elements with the same tag; messages of one tag arrive in order.
/// `execution` is fenced first; the View must not be written until the request is complete.
/// Throws InputError for a View with gaps or a peer that is no other rank, CommError if MPI fails.
template <class ExecutionSpace, class View>
Request send(const ExecutionSpace& execution, const Communicator& communicator, const View& view, SendOptions options,
             std::source_location where = std::source_location::current()) {
  require(options.to >= 0 && options.to < communicator.size() && options.to != communicator.rank(),
          "send: ", options.to, " is no other rank of '", communicator.name(), "'");
  const comm::Buffer<View> buffer(view, "send");
  execution.fence("kerkis::send");
  return Request::start(
      communicator,
      {.name = "send",
       .type = buffer.type.name,
       .count = view.size(),
       .peer = options.to,
       .collective = false,
       .where = where},
      options.deadline, comm::keep_alive(view),
      [buffer, peer = options.to, tag = options.tag, native = communicator.native()](MPI_Request* request) {
        return MPI_Isend(buffer.data, buffer.count, buffer.type.native, peer, tag, native, request);
      });
}

/// Receives `view` from rank `from`. A longer message is an error, a shorter one leaves the rest of the View as it was.
/// `execution` is fenced first; the View must be neither read nor written until the request is complete.
/// Throws InputError for a View with gaps or a peer that is no other rank, CommError if MPI fails.
template <class ExecutionSpace, class View>
Request receive(const ExecutionSpace& execution, const Communicator& communicator, const View& view,
                ReceiveOptions options, std::source_location where = std::source_location::current()) {
  static_assert(comm::is_writable<View>, "kerkis: receive writes its View, which must not be const");
  require(options.from >= 0 && options.from < communicator.size() && options.from != communicator.rank(),
          "receive: ", options.from, " is no other rank of '", communicator.name(), "'");
  const comm::Buffer<View> buffer(view, "receive");
  execution.fence("kerkis::receive");
  return Request::start(
      communicator,
      {.name = "receive",
       .type = buffer.type.name,
       .count = view.size(),
       .peer = options.from,
       .collective = false,
       .where = where},
      options.deadline, comm::keep_alive(view),
      [buffer, peer = options.from, tag = options.tag, native = communicator.native()](MPI_Request* request) {
        return MPI_Irecv(buffer.data, buffer.count, buffer.type.native, peer, tag, native, request);
      });
}

}  // namespace kerkis
