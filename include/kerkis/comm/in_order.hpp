// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <type_traits>
#include <utility>

#include <kerkis/comm/collective.hpp>
#include <kerkis/comm/ordered_reduction.hpp>

namespace kerkis::comm {

/// Reductions that always go in order: those of the half types, which are summed in float and rounded once.
template <class T, class Functor>
inline constexpr bool always_in_order = is_half<T> && std::is_same_v<Functor, Named>;

/// The reduction of `send` to `receive`, on the ranks that receive, in an order that depends on the shards only.
template <class Functor, class ExecutionSpace, class Send, class Receive>
Request reduce_in_order(const ExecutionSpace& execution, const Communicator& communicator, Operation operation,
                        std::chrono::milliseconds deadline, const char* fence, const Send& send, const Receive& receive,
                        bool receives, Reduction reduction, const OrderedShape& shape) {
  using Element = typename Receive::value_type;
  if constexpr (is_half<Element> && !always_in_order<Element, Functor>) {
    throw InputError(message(operation.caller(), " in order: elements of a half type take no functor"));
  } else {
    auto wires = keep(communicator, use<Access::read>(execution, communicator, send, fence, true),
                      use<Access::write>(execution, communicator, receive, fenced, true, receives));
    const auto [in, out] = wires->runs(communicator);
    operation.type = in.type.name;
    operation.order = in.type.order;
    operation.count = shape.count;
    return start_ordered<Element, Functor>(communicator, operation, deadline, std::move(wires), in, out, reduction,
                                           shape);
  }
}

/// Throws InputError unless `shards` are 0 or one of each rank.
inline void check_shards_in_place(Caller caller, const Communicator& communicator, std::size_t shards) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  require(shards == 0 || shards == ranks, caller, " in place over ", ranks, " ranks: ", shards,
          " shards, not one of each rank");
}

/// The same in place, of one shard per rank; a rank that receives a block has it where it lies in `view`.
template <class Functor, class ExecutionSpace, class View>
Request reduce_in_order(const ExecutionSpace& execution, const Communicator& communicator, Operation operation,
                        std::chrono::milliseconds deadline, const char* fence, const View& view, Reduction reduction,
                        OrderedShape shape) {
  using Element = typename View::value_type;
  if constexpr (is_half<Element> && !always_in_order<Element, Functor>) {
    throw InputError(message(operation.caller(), " in order: elements of a half type take no functor"));
  } else {
    const auto ranks = static_cast<std::size_t>(communicator.size());
    check_shards_in_place(operation.caller(), communicator, shape.shards);
    shape.shards = ranks;
    const bool receives = shape.root < 0 || shape.root == communicator.rank();
    auto wires = keep(communicator, use<Access::read>(execution, communicator, view, fence, true, !receives),
                      use<Access::read_write>(execution, communicator, view, fence, true, receives));
    const auto [from, to] = wires->runs(communicator);
    const auto in = receives ? to : from;
    auto out = to;
    if (shape.blocks != nullptr) {
      out.data += shape.blocks->begin(shape.blocks->rank());
      out.count = shape.blocks->size(shape.blocks->rank());
    }
    operation.type = in.type.name;
    operation.order = in.type.order;
    operation.count = shape.count = in.count;
    return start_ordered<Element, Functor>(communicator, operation, deadline, std::move(wires), in, out, reduction,
                                           shape);
  }
}

/// Shards of all ranks together; 0: one of each.
inline std::size_t shards_of(const Communicator& communicator, std::size_t shards) {
  return shards == 0 ? static_cast<std::size_t>(communicator.size()) : shards;
}

/// Throws InputError unless `elements` are this rank's share of the shards, of `count` elements each.
inline void check_shards(Caller caller, const Communicator& communicator, std::size_t shards, std::size_t count,
                         std::size_t elements) {
  const auto mine = static_cast<std::size_t>(
      partition(static_cast<std::int64_t>(shards), communicator.size(), communicator.rank()).size());
  require(elements == mine * count, caller, " of ", shards, " shards over ", communicator.size(), " ranks: rank ",
          communicator.rank(), " has ", mine, " of them, of ", count, " elements each, its View ", elements);
}

}  // namespace kerkis::comm
