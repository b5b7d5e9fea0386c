// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>

#include <kerkis/comm/blocks.hpp>

namespace kerkis {

/// Of `scatter`. What holds for every operation (buffers, order, progress, failure) is in docs/contract.md.
struct ScatterOptions {
  int root = 0;
  std::span<const std::size_t> counts{};  ///< elements of each rank's block, equal on all ranks; empty: equal blocks
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};

namespace comm {

/// `from`: all blocks, on the root; `to`: this rank's block, unless in place on the root.
inline Request start_scatter(const Communicator& communicator, const Blocks& blocks, bool in_place, const AnyRun& from,
                             const AnyRun& to, const ScatterOptions& options, const std::source_location& where,
                             std::unique_ptr<Steps> steps) {
  const auto type = to.type;
  const Operation words{.name = "scatter",
                        .type = type.name,
                        .order = type.order,
                        .count = blocks.total(),
                        .root = options.root,
                        .where = where};
  const std::size_t mine = blocks.rank();
  const bool root = communicator.rank() == options.root;
  in_place = in_place && root;
  if (!blocks.fit(communicator)) {
    TypedBlocks send(communicator, from), receive(communicator, to);
    for (std::size_t rank = 0; root && rank < blocks.ranks(); ++rank)
      if (!in_place || rank != mine) send.set(rank, blocks.begin(rank), blocks.size(rank));
    if (!in_place) receive.set(static_cast<std::size_t>(options.root), 0, blocks.size(mine));
    return start_typed(communicator, words, options.deadline, false, std::move(send), std::move(receive),
                       std::move(steps));
  }
  const void* const all = from.data;
  void* const receive = in_place ? MPI_IN_PLACE : to.data;
  const auto native = communicator.native();
  const int count = static_cast<int>(blocks.size(mine)), from_rank = options.root;
  if (blocks.equal())
    return Request::start(communicator, words, options.deadline, std::move(steps),
                          [all, receive, count, type = type.native, from_rank, native](MPI_Request* request) {
                            return MPI_Iscatter(all, count, type, receive, count, type, from_rank, native, request);
                          });
  IntBlocks ints(blocks);
  return Request::start(communicator, words, options.deadline, with(std::move(ints), std::move(steps)),
                        [all, receive, count, counts = ints.counts(), begins = ints.displacements(), type = type.native,
                         from_rank, native](MPI_Request* request) {
                          return MPI_Iscatterv(all, counts, begins, type, receive, count, type, from_rank, native,
                                               request);
                        });
}

}  // namespace comm

/// Gives every rank its block of the `send` of rank `root`, where blocks lie in the order of ranks, in `receive`;
/// elsewhere `send` is ignored. Blocks have `counts` elements, or receive.size(). `execution` is fenced first; the
/// Views, which have no memory in common, belong to the operation until the request is complete. Throws InputError for
/// a root that is no rank or if the sizes do not match, CommError if MPI fails.
template <class ExecutionSpace, class Send, class Receive>
  requires(!std::is_convertible_v<Receive, ScatterOptions>)
Request scatter(const ExecutionSpace& execution, const Communicator& communicator, const Send& send,
                const Receive& receive, ScatterOptions options = {},
                std::source_location where = std::source_location::current()) {
  comm::check_pair<Send, Receive>();
  static constexpr const char* fence = "kerkis::scatter";
  comm::check_root("scatter", communicator, options.root);
  const bool root = communicator.rank() == options.root;
  const comm::Blocks blocks("scatter", communicator, options.counts, receive.size());
  blocks.check_mine(receive.size());
  if (root) blocks.check_whole(send.size());
  if (communicator.size() == 1) return comm::copy(execution, communicator, send, receive, fence);
  auto from = comm::wire_if<comm::Access::read>(root, execution, communicator, send, fence);
  comm::Wire<comm::Access::write, ExecutionSpace, Receive> to(execution, communicator, receive,
                                                              root ? comm::fenced : fence);
  const auto all = from.run();
  const auto mine = to.run();
  return comm::start_scatter(communicator, blocks, false, all, mine, options, where,
                             comm::keep(std::move(from), std::move(to)));
}

/// The same in place: on the root, `view` has all blocks, which are only read, and its own stays where it is; elsewhere
/// `view` receives the rank's block. Blocks have `counts` elements, or are equal.
template <class ExecutionSpace, class View>
Request scatter(const ExecutionSpace& execution, const Communicator& communicator, const View& view,
                ScatterOptions options = {}, std::source_location where = std::source_location::current()) {
  comm::check_written<View>();
  static constexpr const char* fence = "kerkis::scatter";
  comm::check_root("scatter", communicator, options.root);
  const bool root = communicator.rank() == options.root;
  const auto blocks = root ? comm::Blocks::of("scatter", communicator, options.counts, view.size())
                           : comm::Blocks("scatter", communicator, options.counts, view.size());
  if (!root) blocks.check_mine(view.size());
  if (communicator.size() == 1) {
    execution.fence(fence);
    return {};
  }
  auto from = comm::wire_if<comm::Access::read>(root, execution, communicator, view, fence);
  auto to = comm::wire_if<comm::Access::write>(!root, execution, communicator, view, fence);
  const auto run = root ? from.run() : to.run();
  return comm::start_scatter(communicator, blocks, true, run, run, options, where,
                             comm::keep(std::move(from), std::move(to)));
}

}  // namespace kerkis
