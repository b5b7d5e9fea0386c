// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>

#include <kerkis/comm/root_blocks.hpp>

namespace kerkis {

/// Of `gather`. What holds for every operation (buffers, order, progress, failure) is in docs/contract.md.
struct GatherOptions {
  int root = 0;                           ///< who gets all blocks
  std::span<const std::size_t> counts{};  ///< elements of each rank's block, equal on all ranks; empty: equal blocks
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};

/// Puts the `send` of every rank, in the order of ranks, in the `receive` of rank `root`; elsewhere `receive` is
/// ignored. Blocks have `counts` elements, or send.size(). `execution` is fenced first; the Views, which have no memory
/// in common, belong to the operation until the request is complete. Throws InputError for a root that is no rank, if
/// the sizes do not match or if the Views of the root overlap, CommError if MPI fails.
template <class ExecutionSpace, class Send, class Receive>
  requires(!std::is_convertible_v<Receive, GatherOptions>)
Request gather(const ExecutionSpace& execution, const Communicator& communicator, const Send& send,
               const Receive& receive, GatherOptions options = {},
               std::source_location where = std::source_location::current()) {
  comm::check_pair<Send, Receive>();
  static constexpr const char* fence = "kerkis::gather";
  comm::check_root({"gather", where}, communicator, options.root);
  const bool root = communicator.rank() == options.root;
  const comm::Blocks blocks({"gather", where}, communicator, options.counts, send.size());
  blocks.check_mine(send.size());
  if (root) {
    blocks.check_whole(receive.size());
    comm::check_apart({"gather", where}, send, receive);
  }
  if (comm::alone({"gather", where}, communicator, options.deadline))
    return comm::copy(execution, communicator, send, receive, fence);
  auto wires = comm::keep(communicator, comm::use<comm::Access::read>(execution, communicator, send, fence),
                          comm::use<comm::Access::write>(execution, communicator, receive, comm::fenced, false, root));
  const auto [mine, all] = wires->runs(communicator);
  return comm::start_root_blocks(communicator, true, blocks, false, mine, all, options.root, options.deadline, where,
                                 std::move(wires));
}

/// The same in place: on the root, `view` has all blocks and its own lies already where it belongs; elsewhere it is the
/// rank's block, which is only read. Blocks have `counts` elements, or are equal.
template <class ExecutionSpace, class View>
Request gather(const ExecutionSpace& execution, const Communicator& communicator, const View& view,
               GatherOptions options = {}, std::source_location where = std::source_location::current()) {
  comm::check_written<View>();
  static constexpr const char* fence = "kerkis::gather";
  comm::check_root({"gather", where}, communicator, options.root);
  const bool root = communicator.rank() == options.root;
  const auto blocks = root ? comm::Blocks::of({"gather", where}, communicator, options.counts, view.size())
                           : comm::Blocks({"gather", where}, communicator, options.counts, view.size());
  if (!root) blocks.check_mine(view.size());
  if (comm::alone({"gather", where}, communicator, options.deadline)) {
    comm::fence(execution, fence);
    return {};
  }
  auto wires =
      comm::keep(communicator, comm::use<comm::Access::read>(execution, communicator, view, fence, false, !root),
                 comm::use<comm::Access::read_write>(execution, communicator, view, fence, false, root));
  const auto [from, to] = wires->runs(communicator);
  const comm::AnyRun run = root ? to : from;
  return comm::start_root_blocks(communicator, true, blocks, true, run, run, options.root, options.deadline, where,
                                 std::move(wires));
}

}  // namespace kerkis
