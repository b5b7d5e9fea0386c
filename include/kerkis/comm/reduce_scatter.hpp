// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <source_location>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <kerkis/comm/blocks.hpp>
#include <kerkis/comm/in_order.hpp>
#include <kerkis/comm/reduction.hpp>

namespace kerkis {

/// Of `reduce_scatter`. What holds for every operation (buffers, order, progress, failure) is in docs/contract.md.
struct ReduceScatterOptions {
  Reduction operation = Reduction::sum;   ///< unless a functor is given
  std::span<const std::size_t> counts{};  ///< elements of each rank's block, equal on all ranks; empty: equal blocks
  bool reproducible = false;              ///< as in AllReduceOptions
  std::size_t shards = 0;                 ///< as in AllReduceOptions
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};

namespace comm {

/// MPI leaves the block at the front of an in-place reduction: it goes where it belongs.
struct ToItsPlace {
  void* front;
  void* place;
  std::size_t bytes;
  void finish() { std::memmove(place, front, bytes); }
};

/// `from`: all blocks; `to`: this rank's, unless in place.
inline Request start_reduce_scatter(const Communicator& communicator, const NativeOperation& operation,
                                    const Blocks& blocks, bool in_place, const AnyRun& from, void* to,
                                    const ReduceScatterOptions& options, const std::source_location& where,
                                    std::unique_ptr<Steps> steps) {
  const Operation words{.name = "reduce_scatter",
                        .type = from.type.name,
                        .order = from.type.order,
                        .count = from.count,
                        .reduction = operation.name,
                        .begins = blocks.begins(),
                        .where = where};
  const std::size_t mine = blocks.rank();
  void* const place = in_place ? from.at(blocks.begin(mine)) : to;
  const auto op = operation.native;
  const auto type = from.type.native;
  const auto native = communicator.native();
  if (!blocks.fit(communicator)) {
    // A reduction to each rank in turn, in pieces.
    struct Piece {
      void* from;
      void* to;
      int count, root;
    };
    std::vector<Piece> pieces;
    for (std::size_t rank = 0; rank < blocks.ranks(); ++rank) {
      const Pieces block(communicator, blocks.size(rank));
      for (std::size_t p = 0; p < block.number(); ++p) {
        const bool here = rank == mine;
        void* const send = from.at(blocks.begin(rank) + block.begin(p));
        void* const receive = here ? static_cast<std::byte*>(place) + block.begin(p) * from.element : nullptr;
        pieces.push_back({here && in_place ? MPI_IN_PLACE : send, receive, block.size(p), static_cast<int>(rank)});
      }
    }
    const std::size_t number = pieces.size();
    return start_pieces(communicator, words, options.deadline, number, std::move(steps),
                        [pieces = std::move(pieces), type, op, native](std::size_t p, MPI_Request* request) {
                          const auto& [send, receive, count, root] = pieces[p];
                          return MPI_Ireduce(send, receive, count, type, op, root, native, request);
                        });
  }
  const void* const send = in_place ? MPI_IN_PLACE : from.data;
  void* const result = in_place ? from.data : to;
  if (place != result) steps = with(ToItsPlace{result, place, blocks.size(mine) * from.element}, std::move(steps));
  if (blocks.equal())
    return Request::start(
        communicator, words, options.deadline, std::move(steps),
        [send, result, count = static_cast<int>(blocks.size(mine)), type, op, native](MPI_Request* request) {
          return MPI_Ireduce_scatter_block(send, result, count, type, op, native, request);
        });
  IntBlocks ints(blocks);
  const int* const counts = ints.counts();
  return Request::start(communicator, words, options.deadline, with(std::move(ints), std::move(steps)),
                        [send, result, counts, type, op, native](MPI_Request* request) {
                          return MPI_Ireduce_scatter(send, result, counts, type, op, native, request);
                        });
}

}  // namespace comm

/// Reduces `send`, which is one block of elements per rank, in the order of ranks, element by element; rank r gets
/// block r in `receive`. Blocks have `counts` elements, or receive.size(). `execution` is fenced first; both Views,
/// which have no memory in common, belong to the operation until the request is complete. Throws InputError if the
/// sizes do not match or the element type does not have the operation, CommError if MPI fails.
template <class Functor = comm::Named, class ExecutionSpace, class Send, class Receive>
  requires(!std::is_convertible_v<Receive, ReduceScatterOptions>)
Request reduce_scatter(const ExecutionSpace& execution, const Communicator& communicator, const Send& send,
                       const Receive& receive, ReduceScatterOptions options = {},
                       std::source_location where = std::source_location::current()) {
  comm::check_pair<Send, Receive>();
  comm::check_apart({"reduce_scatter", where}, send, receive);
  using Element = typename Receive::non_const_value_type;
  comm::check_reduction<Element, Functor>();
  static constexpr const char* fence = "kerkis::reduce_scatter";
  constexpr bool always = comm::always_in_order<Element, Functor>;
  const comm::Blocks blocks({"reduce_scatter", where}, communicator, options.counts, receive.size());
  blocks.check_mine(receive.size());
  if (always || options.reproducible || options.shards > 0) {
    const std::size_t shards = comm::shards_of(communicator, options.shards);
    comm::check_shards({"reduce_scatter", where}, communicator, shards, blocks.total(), send.size());
    return comm::reduce_in_order<Functor>(execution, communicator, {.name = "reduce_scatter", .where = where},
                                          options.deadline, fence, send, receive, true, options.operation,
                                          {.count = blocks.total(), .shards = shards, .blocks = &blocks});
  }
  if constexpr (!always) {
    blocks.check_whole(send.size());
    const auto operation =
        comm::native_operation<Element, Functor>(communicator, options.operation, {"reduce_scatter", where});
    if (comm::alone({"reduce_scatter", where}, communicator, options.deadline))
      return comm::copy(execution, communicator, send, receive, fence);
    auto wires =
        comm::keep(communicator, comm::use<comm::Access::read>(execution, communicator, send, fence, operation.own),
                   comm::use<comm::Access::write>(execution, communicator, receive, comm::fenced, operation.own));
    const auto [all, mine] = wires->runs(communicator);
    return comm::start_reduce_scatter(communicator, operation, blocks, false, all, mine.data, options, where,
                                      std::move(wires));
  }
}

/// The same in place: every rank's block keeps its place in `view`; the other blocks are then without meaning. Blocks
/// have `counts` elements, or view.size() / size().
template <class Functor = comm::Named, class ExecutionSpace, class View>
Request reduce_scatter(const ExecutionSpace& execution, const Communicator& communicator, const View& view,
                       ReduceScatterOptions options = {},
                       std::source_location where = std::source_location::current()) {
  comm::check_written<View>();
  using Element = typename View::non_const_value_type;
  comm::check_reduction<Element, Functor>();
  static constexpr const char* fence = "kerkis::reduce_scatter";
  constexpr bool always = comm::always_in_order<Element, Functor>;
  const auto blocks = comm::Blocks::of({"reduce_scatter", where}, communicator, options.counts, view.size());
  if (always || options.reproducible || options.shards > 0)
    return comm::reduce_in_order<Functor>(execution, communicator, {.name = "reduce_scatter", .where = where},
                                          options.deadline, fence, view, options.operation,
                                          {.shards = options.shards, .blocks = &blocks});
  if constexpr (!always) {
    const auto operation =
        comm::native_operation<Element, Functor>(communicator, options.operation, {"reduce_scatter", where});
    if (comm::alone({"reduce_scatter", where}, communicator, options.deadline)) {
      comm::fence(execution, fence);
      return {};
    }
    auto wire =
        comm::keep(communicator, comm::use<comm::Access::read_write>(execution, communicator, view, fence, true));
    const auto [run] = wire->runs(communicator);
    return comm::start_reduce_scatter(communicator, operation, blocks, true, run, nullptr, options, where,
                                      std::move(wire));
  }
}

}  // namespace kerkis
