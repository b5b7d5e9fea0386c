// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
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

/// Of `all_to_all`. What holds for every operation (buffers, order, progress, failure) is in docs/contract.md.
struct AllToAllOptions {
  /// Elements of the block for each rank: what this one sends to another is what that one receives from it. Both
  /// empty: equal blocks.
  std::span<const std::size_t> send_counts{}, receive_counts{};  ///< elements of the block from each rank
  std::chrono::milliseconds deadline{0};                         ///< 0: the communicator's
};

namespace comm {

/// `from`: the blocks for all ranks, unless in place; `to`: those from all ranks.
inline Request start_all_to_all(const Communicator& communicator, const Blocks& sent, const Blocks& received,
                                bool in_place, const AnyRun& from, const AnyRun& to, const AllToAllOptions& options,
                                const std::source_location& where, std::unique_ptr<Steps> steps) {
  const UnevenCounts counts{options.send_counts, options.receive_counts};
  const Operation words{.name = "all_to_all",
                        .type = to.type.name,
                        .order = to.type.order,
                        .count = from.count,
                        .equal_counts = sent.equal(),
                        .uneven = counts.sends.empty() ? nullptr : &counts,
                        .where = where};
  const auto native = communicator.native();
  if (sent.equal() && sent.fit(communicator)) [[likely]] {
    const int count = static_cast<int>(sent.size(0));
    const void* const send = in_place ? MPI_IN_PLACE : from.data;
    return Request::start(
        communicator, words, options.deadline, std::move(steps), [send, to, count, native](MPI_Request* request) {
          return MPI_Ialltoall(send, count, to.type.native, to.data, count, to.type.native, native, request);
        });
  }
  // No rank knows how large the blocks of others are: the same call whatever they are.
  TypedBlocks send(communicator, from), receive(communicator, to);
  for (std::size_t rank = 0; rank < sent.ranks(); ++rank) {
    if (!in_place) send.set(rank, sent.begin(rank), sent.size(rank));
    receive.set(rank, received.begin(rank), received.size(rank));
  }
  return start_typed(communicator, words, options.deadline, in_place, std::move(send), std::move(receive),
                     std::move(steps));
}

}  // namespace comm

/// Gives block q of the `send` of this rank to rank q, and puts the blocks from all ranks, in their order, in
/// `receive`. Blocks have `send_counts` and `receive_counts` elements or, if both are empty, send.size() / size().
/// `execution` is fenced first; both Views, which have no memory in common, belong to the operation until the request
/// is complete. Throws InputError if the sizes do not match, CommError if MPI fails.
template <class ExecutionSpace, class Send, class Receive>
  requires(!std::is_convertible_v<Receive, AllToAllOptions>)
Request all_to_all(const ExecutionSpace& execution, const Communicator& communicator, const Send& send,
                   const Receive& receive, AllToAllOptions options = {},
                   std::source_location where = std::source_location::current()) {
  comm::check_pair<Send, Receive>();
  const comm::Caller caller{"all_to_all", where};
  comm::check_apart(caller, send, receive);
  static constexpr const char* fence = "kerkis::all_to_all";
  require(options.send_counts.size() == options.receive_counts.size(), caller, ": ", options.send_counts.size(),
          " send_counts, ", options.receive_counts.size(), " receive_counts");
  const auto sent = comm::Blocks::of(caller, communicator, options.send_counts, send.size());
  const auto received = comm::Blocks::of(caller, communicator, options.receive_counts, receive.size());
  require(sent.mine() == received.mine(), caller, ": rank ", sent.rank(), " sends itself ", sent.mine(),
          " elements and receives ", received.mine());
  if (comm::alone(caller, communicator, options.deadline))
    return comm::copy(execution, communicator, send, receive, fence);
  auto wires = comm::keep(communicator, comm::use<comm::Access::read>(execution, communicator, send, fence),
                          comm::use<comm::Access::write>(execution, communicator, receive, comm::fenced));
  const auto [out, in] = wires->runs(communicator);
  return comm::start_all_to_all(communicator, sent, received, false, out, in, options, where, std::move(wires));
}

/// The same in place: block q of `view` goes to rank q, whose block for this rank replaces it. So two ranks exchange
/// blocks of equal size: `send_counts` and `receive_counts` are the same numbers.
template <class ExecutionSpace, class View>
Request all_to_all(const ExecutionSpace& execution, const Communicator& communicator, const View& view,
                   AllToAllOptions options = {}, std::source_location where = std::source_location::current()) {
  comm::check_written<View>();
  static constexpr const char* fence = "kerkis::all_to_all";
  require(std::ranges::equal(options.send_counts, options.receive_counts), comm::Caller{"all_to_all", where},
          " in place: send_counts and receive_counts differ");
  const auto blocks = comm::Blocks::of({"all_to_all", where}, communicator, options.send_counts, view.size());
  if (comm::alone({"all_to_all", where}, communicator, options.deadline)) {
    comm::fence(execution, fence);
    return {};
  }
  auto wire = comm::keep(communicator, comm::use<comm::Access::read_write>(execution, communicator, view, fence));
  const auto [run] = wire->runs(communicator);
  return comm::start_all_to_all(communicator, blocks, blocks, true, run, run, options, where, std::move(wire));
}

}  // namespace kerkis
