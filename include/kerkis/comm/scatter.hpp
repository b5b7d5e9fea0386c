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

/// Of `scatter`. What holds for every operation (buffers, order, progress, failure) is in docs/contract.md.
struct ScatterOptions {
  int root = 0;                           ///< who has all blocks
  std::span<const std::size_t> counts{};  ///< elements of each rank's block, equal on all ranks; empty: equal blocks
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};

/// Gives every rank its block of the `send` of rank `root`, where blocks lie in the order of ranks, in `receive`;
/// elsewhere `send` is ignored. Blocks have `counts` elements, or receive.size(). `execution` is fenced first; the
/// Views, which have no memory in common, belong to the operation until the request is complete. Throws InputError for
/// a root that is no rank, if the sizes do not match or if the Views of the root overlap, CommError if MPI fails.
template <class ExecutionSpace, class Send, class Receive>
  requires(!std::is_convertible_v<Receive, ScatterOptions>)
Request scatter(const ExecutionSpace& execution, const Communicator& communicator, const Send& send,
                const Receive& receive, ScatterOptions options = {},
                std::source_location where = std::source_location::current()) {
  comm::check_pair<Send, Receive>();
  static constexpr const char* fence = "kerkis::scatter";
  comm::check_root({"scatter", where}, communicator, options.root);
  const bool root = communicator.rank() == options.root;
  const comm::Blocks blocks({"scatter", where}, communicator, options.counts, receive.size());
  blocks.check_mine(receive.size());
  if (root) {
    blocks.check_whole(send.size());
    comm::check_apart({"scatter", where}, send, receive);
  }
  if (comm::alone({"scatter", where}, communicator, options.deadline))
    return comm::copy(execution, communicator, send, receive, fence);
  auto wires =
      comm::keep(communicator, comm::use<comm::Access::read>(execution, communicator, send, fence, false, root),
                 comm::use<comm::Access::write>(execution, communicator, receive, root ? comm::fenced : fence));
  const auto [all, mine] = wires->runs(communicator);
  return comm::start_root_blocks(communicator, false, blocks, false, mine, all, options.root, options.deadline, where,
                                 std::move(wires));
}

/// The same in place: on the root, `view` has all blocks, which are only read, and its own stays where it is; elsewhere
/// `view` receives the rank's block. Blocks have `counts` elements, or are equal.
template <class ExecutionSpace, class View>
Request scatter(const ExecutionSpace& execution, const Communicator& communicator, const View& view,
                ScatterOptions options = {}, std::source_location where = std::source_location::current()) {
  comm::check_written<View>();
  static constexpr const char* fence = "kerkis::scatter";
  comm::check_root({"scatter", where}, communicator, options.root);
  const bool root = communicator.rank() == options.root;
  const auto blocks = root ? comm::Blocks::of({"scatter", where}, communicator, options.counts, view.size())
                           : comm::Blocks({"scatter", where}, communicator, options.counts, view.size());
  if (!root) blocks.check_mine(view.size());
  if (comm::alone({"scatter", where}, communicator, options.deadline)) {
    comm::fence(execution, fence);
    return {};
  }
  auto wires =
      comm::keep(communicator, comm::use<comm::Access::read>(execution, communicator, view, fence, false, root),
                 comm::use<comm::Access::write>(execution, communicator, view, fence, false, !root));
  const auto [from, to] = wires->runs(communicator);
  const comm::AnyRun run = root ? from : to;
  return comm::start_root_blocks(communicator, false, blocks, true, run, run, options.root, options.deadline, where,
                                 std::move(wires));
}

}  // namespace kerkis
