// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <source_location>
#include <utility>

#include <kerkis/comm/collective.hpp>

namespace kerkis {

/// Of `broadcast`. What holds for every operation (buffers, order, progress, failure) is in docs/contract.md.
struct BroadcastOptions {
  int root = 0;                           ///< who has the values
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};

/// Copies the `view` of rank `root` to the `view` of every rank. Extents are equal on all ranks.
/// `execution` is fenced first; the View belongs to the operation until the request is complete, on the root it may be
/// read. Throws InputError for a root that is no rank, CommError if MPI fails.
template <class ExecutionSpace, class View>
Request broadcast(const ExecutionSpace& execution, const Communicator& communicator, const View& view,
                  BroadcastOptions options = {}, std::source_location where = std::source_location::current()) {
  comm::check_written<View>();
  static constexpr const char* fence = "kerkis::broadcast";
  comm::check_root({"broadcast", where}, communicator, options.root);
  if (comm::alone({"broadcast", where}, communicator, options.deadline)) {
    comm::fence(execution, fence);
    return {};
  }
  const bool root = communicator.rank() == options.root;
  auto wires =
      comm::keep(communicator, comm::use<comm::Access::read>(execution, communicator, view, fence, false, root),
                 comm::use<comm::Access::write>(execution, communicator, view, fence, false, !root));
  const auto [from, to] = wires->runs(communicator);
  const comm::AnyRun run = root ? from : to;
  const comm::Pieces pieces(communicator, run.count);
  return comm::start_pieces(
      communicator,
      {.name = "broadcast",
       .type = run.type.name,
       .order = run.type.order,
       .count = run.count,
       .root = options.root,
       .where = where},
      options.deadline, pieces.number(), std::move(wires),
      [run, pieces, root = options.root, native = communicator.native()](std::size_t piece, MPI_Request* request) {
        return MPI_Ibcast(run.at(pieces.begin(piece)), pieces.size(piece), run.type.native, root, native, request);
      });
}

}  // namespace kerkis
