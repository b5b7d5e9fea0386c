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
#include <kerkis/comm/typed_blocks.hpp>

namespace kerkis {

/// Of `all_gather`. What holds for every operation (buffers, order, progress, failure) is in docs/contract.md.
struct AllGatherOptions {
  std::span<const std::size_t> counts{};  ///< elements of each rank's block, equal on all ranks; empty: equal blocks
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};

namespace comm {

/// `from`: this rank's block, or all of them in place; `to`: all blocks.
inline Request start_all_gather(const Communicator& communicator, const Blocks& blocks, bool in_place,
                                const AnyRun& from, const AnyRun& to, const AllGatherOptions& options,
                                const std::source_location& where, std::unique_ptr<Steps> steps) {
  const Operation words{.name = "all_gather",
                        .type = to.type.name,
                        .order = to.type.order,
                        .count = to.count,
                        .begins = blocks.begins(),
                        .where = where};
  const std::size_t mine = blocks.rank();
  if (!blocks.fit(communicator)) {
    TypedBlocks send(communicator, from), receive(communicator, to);
    for (std::size_t rank = 0; rank < blocks.ranks(); ++rank) {
      if (in_place && rank == mine) continue;
      send.set(rank, in_place ? blocks.begin(mine) : 0, blocks.size(mine));
      receive.set(rank, blocks.begin(rank), blocks.size(rank));
    }
    return start_typed(communicator, words, options.deadline, false, std::move(send), std::move(receive),
                       std::move(steps));
  }
  const void* const send = in_place ? MPI_IN_PLACE : from.data;
  const auto native = communicator.native();
  const int count = static_cast<int>(blocks.size(mine));
  if (blocks.equal())
    return Request::start(
        communicator, words, options.deadline, std::move(steps), [send, to, count, native](MPI_Request* request) {
          return MPI_Iallgather(send, count, to.type.native, to.data, count, to.type.native, native, request);
        });
  IntBlocks ints(blocks);
  return Request::start(
      communicator, words, options.deadline, with(std::move(ints), std::move(steps)),
      [send, to, count, counts = ints.counts(), begins = ints.displacements(), native](MPI_Request* request) {
        return MPI_Iallgatherv(send, count, to.type.native, to.data, counts, begins, to.type.native, native, request);
      });
}

}  // namespace comm

/// Puts the `send` of every rank, in the order of ranks, in the `receive` of every rank. Blocks have `counts` elements,
/// or send.size(). `execution` is fenced first; both Views, which have no memory in common, belong to the operation
/// until the request is complete. Throws InputError if the sizes do not match, CommError if MPI fails.
template <class ExecutionSpace, class Send, class Receive>
  requires(!std::is_convertible_v<Receive, AllGatherOptions>)
Request all_gather(const ExecutionSpace& execution, const Communicator& communicator, const Send& send,
                   const Receive& receive, AllGatherOptions options = {},
                   std::source_location where = std::source_location::current()) {
  comm::check_pair<Send, Receive>();
  comm::check_apart({"all_gather", where}, send, receive);
  static constexpr const char* fence = "kerkis::all_gather";
  const comm::Blocks blocks({"all_gather", where}, communicator, options.counts, send.size());
  blocks.check_mine(send.size());
  blocks.check_whole(receive.size());
  if (comm::alone({"all_gather", where}, communicator, options.deadline))
    return comm::copy(execution, communicator, send, receive, fence);
  auto wires = comm::keep(communicator, comm::use<comm::Access::read>(execution, communicator, send, fence),
                          comm::use<comm::Access::write>(execution, communicator, receive, comm::fenced));
  const auto [mine, all] = wires->runs(communicator);
  return comm::start_all_gather(communicator, blocks, false, mine, all, options, where, std::move(wires));
}

/// The same in place: every rank's block lies already where it belongs in `view`. Blocks have `counts` elements, or
/// view.size() / size().
template <class ExecutionSpace, class View>
Request all_gather(const ExecutionSpace& execution, const Communicator& communicator, const View& view,
                   AllGatherOptions options = {}, std::source_location where = std::source_location::current()) {
  comm::check_written<View>();
  static constexpr const char* fence = "kerkis::all_gather";
  const auto blocks = comm::Blocks::of({"all_gather", where}, communicator, options.counts, view.size());
  if (comm::alone({"all_gather", where}, communicator, options.deadline)) {
    comm::fence(execution, fence);
    return {};
  }
  auto wire = comm::keep(communicator, comm::use<comm::Access::read_write>(execution, communicator, view, fence));
  const auto [run] = wire->runs(communicator);
  return comm::start_all_gather(communicator, blocks, true, run, run, options, where, std::move(wire));
}

}  // namespace kerkis
