// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <source_location>

#include <kerkis/comm/buffer.hpp>
#include <kerkis/comm/request.hpp>

namespace kerkis {

struct BroadcastOptions {
  int root = 0;
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};

/// Copies the `view` of rank `root` to the `view` of every rank. Extents are equal on all ranks.
/// `execution` is fenced first; the View belongs to the operation until the request is complete.
/// Throws InputError for a View with gaps or a root that is no rank, CommError if MPI fails.
template <class ExecutionSpace, class View>
Request broadcast(const ExecutionSpace& execution, const Communicator& communicator, const View& view,
                  BroadcastOptions options = {}, std::source_location where = std::source_location::current()) {
  static_assert(comm::is_writable<View>, "kerkis: broadcast writes its View, which must not be const");
  require(options.root >= 0 && options.root < communicator.size(), "broadcast: root ", options.root, " is none of the ",
          communicator.size(), " ranks");
  const comm::Buffer<View> buffer(view, "broadcast");
  if (communicator.size() == 1) return {};
  execution.fence("kerkis::broadcast");
  return Request::start(
      communicator,
      {.name = "broadcast", .type = buffer.type.name, .count = view.size(), .root = options.root, .where = where},
      options.deadline, comm::keep_alive(view),
      [buffer, root = options.root, native = communicator.native()](MPI_Request* request) {
        return MPI_Ibcast(buffer.data, buffer.count, buffer.type.native, root, native, request);
      });
}

}  // namespace kerkis
