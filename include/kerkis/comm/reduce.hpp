// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>

#include <kerkis/comm/collective.hpp>
#include <kerkis/comm/in_order.hpp>
#include <kerkis/comm/reduction.hpp>

namespace kerkis {

/// Of `reduce`. What holds for every operation (buffers, order, progress, failure) is in docs/contract.md.
struct ReduceOptions {
  int root = 0;                           ///< who gets the result
  Reduction operation = Reduction::sum;   ///< unless a functor is given
  bool reproducible = false;              ///< as in AllReduceOptions
  std::size_t shards = 0;                 ///< as in AllReduceOptions
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};

namespace comm {

/// `from`: what this rank gives, or MPI_IN_PLACE on the root; `to`: the result, on the root.
inline Request start_reduce(const Communicator& communicator, const NativeOperation& operation, const void* from,
                            const AnyRun& to, std::size_t count, const Datatype& type, const ReduceOptions& options,
                            const std::source_location& where, std::unique_ptr<Steps> steps) {
  const Pieces pieces(communicator, count);
  return start_pieces(
      communicator,
      {.name = "reduce",
       .type = type.name,
       .order = type.order,
       .count = count,
       .root = options.root,
       .reduction = operation.name,
       .where = where},
      options.deadline, pieces.number(), std::move(steps),
      [from, to, type = type.native, pieces, op = operation.native, root = options.root,
       here = communicator.rank() == options.root,
       native = communicator.native()](std::size_t piece, MPI_Request* request) {
        const std::size_t begin = pieces.begin(piece);
        const void* const send = from == MPI_IN_PLACE ? from : static_cast<const std::byte*>(from) + begin * to.element;
        return MPI_Ireduce(send, here ? to.at(begin) : nullptr, pieces.size(piece), type, op, root, native, request);
      });
}

}  // namespace comm

/// Element-wise reduction of `view` over all ranks, in place in that of rank `root`; on the others it is only read.
/// Extents are equal on all ranks. `execution` is fenced first; the View belongs to the operation until the request is
/// complete. Throws InputError for a root that is no rank or if the element type does not have the operation, CommError
/// if MPI fails.
template <class Functor = comm::Named, class ExecutionSpace, class View>
Request reduce(const ExecutionSpace& execution, const Communicator& communicator, const View& view,
               ReduceOptions options = {}, std::source_location where = std::source_location::current()) {
  comm::check_written<View>();
  using Element = typename View::non_const_value_type;
  comm::check_reduction<Element, Functor>();
  static constexpr const char* fence = "kerkis::reduce";
  constexpr bool always = comm::always_in_order<Element, Functor>;
  comm::check_root({"reduce", where}, communicator, options.root);
  if (always || options.reproducible || options.shards > 0)
    return comm::reduce_in_order<Functor>(
        execution, communicator, {.name = "reduce", .root = options.root, .where = where}, options.deadline, fence,
        view, options.operation, {.shards = options.shards, .root = options.root});
  if constexpr (!always) {
    const auto operation = comm::native_operation<Element, Functor>(communicator, options.operation, {"reduce", where});
    if (comm::alone({"reduce", where}, communicator, options.deadline)) {
      comm::fence(execution, fence);
      return {};
    }
    const bool root = communicator.rank() == options.root;
    auto wires = comm::keep(
        communicator, comm::use<comm::Access::read>(execution, communicator, view, fence, operation.own, !root),
        comm::use<comm::Access::read_write>(execution, communicator, view, fence, operation.own, root));
    const auto [from, to] = wires->runs(communicator);
    const auto run = root ? to : from;
    const void* const send = root ? MPI_IN_PLACE : run.data;
    return comm::start_reduce(communicator, operation, send, run, run.count, run.type, options, where,
                              std::move(wires));
  }
}

/// The same from `send`, which is only read, to `receive`, which has as many elements (each shard of `send`) on the
/// root and no memory in common with it; elsewhere `receive` is ignored, but for its extents where there are shards.
/// Throws InputError if that is not so, too.
template <class Functor = comm::Named, class ExecutionSpace, class Send, class Receive>
  requires(!std::is_convertible_v<Receive, ReduceOptions>)
Request reduce(const ExecutionSpace& execution, const Communicator& communicator, const Send& send,
               const Receive& receive, ReduceOptions options = {},
               std::source_location where = std::source_location::current()) {
  comm::check_pair<Send, Receive>();
  using Element = typename Receive::non_const_value_type;
  comm::check_reduction<Element, Functor>();
  static constexpr const char* fence = "kerkis::reduce";
  constexpr bool always = comm::always_in_order<Element, Functor>;
  comm::check_root({"reduce", where}, communicator, options.root);
  const bool root = communicator.rank() == options.root;
  if (root) comm::check_apart({"reduce", where}, send, receive);
  if (always || options.reproducible || options.shards > 0) {
    const std::size_t shards = comm::shards_of(communicator, options.shards);
    const std::size_t count = options.shards > 0 || root ? receive.size() : send.size();
    comm::check_shards({"reduce", where}, communicator, shards, count, send.size());
    return comm::reduce_in_order<Functor>(
        execution, communicator, {.name = "reduce", .root = options.root, .where = where}, options.deadline, fence,
        send, receive, root, options.operation, {.count = count, .shards = shards, .root = options.root});
  }
  if constexpr (!always) {
    if (root) comm::check_sizes({"reduce", where}, send, receive);
    const auto operation = comm::native_operation<Element, Functor>(communicator, options.operation, {"reduce", where});
    if (comm::alone({"reduce", where}, communicator, options.deadline))
      return comm::copy(execution, communicator, send, receive, fence);
    auto wires =
        comm::keep(communicator, comm::use<comm::Access::read>(execution, communicator, send, fence, operation.own),
                   comm::use<comm::Access::write>(execution, communicator, receive, comm::fenced, operation.own, root));
    const auto [run, out] = wires->runs(communicator);
    return comm::start_reduce(communicator, operation, run.data, out, run.count, run.type, options, where,
                              std::move(wires));
  }
}

}  // namespace kerkis
