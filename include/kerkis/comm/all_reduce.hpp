// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <source_location>
#include <type_traits>

#include <kerkis/comm/element_wise.hpp>
#include <kerkis/comm/in_order.hpp>

namespace kerkis {

/// Of `all_reduce`. What holds for every operation (buffers, order, progress, failure) is in docs/contract.md.
struct AllReduceOptions {
  Reduction operation = Reduction::sum;  ///< unless a functor is given
  /// The same bits for the same data on any number of ranks and whatever the MPI library does: partial results join in
  /// the pairwise tree over the shards. Half types always go this way: in float, rounded once.
  bool reproducible = false;
  /// The data is so many logical shards, spread over the ranks: rank r gives partition(shards, size, r) of them, one
  /// after the other. 0: one shard per rank, as always in place. Not 0: reproducible.
  std::size_t shards = 0;
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};

/// Element-wise reduction of `view` over all ranks, in place; every rank gets the same bits. Extents are equal on all
/// ranks. `execution` is fenced first; the View belongs to the operation until the request is complete. Throws
/// InputError if the element type does not have the operation or `shards` are neither 0 nor one per rank, CommError if
/// MPI fails.
template <class Functor = comm::Named, class ExecutionSpace, class View>
Request all_reduce(const ExecutionSpace& execution, const Communicator& communicator, const View& view,
                   AllReduceOptions options = {}, std::source_location where = std::source_location::current()) {
  comm::check_written<View>();
  comm::check_reduction<typename View::non_const_value_type, Functor>();
  constexpr bool always = comm::always_in_order<typename View::non_const_value_type, Functor>;
  if (always || options.reproducible || options.shards > 0)
    return comm::reduce_in_order<Functor>(execution, communicator, {.name = "all_reduce", .where = where},
                                          options.deadline, "kerkis::all_reduce", view, options.operation,
                                          {.shards = options.shards});
  if constexpr (!always) {
    const comm::ElementWise all{&MPI_Iallreduce,  "all_reduce", "kerkis::all_reduce", false, options.operation,
                                options.deadline, where};
    return all.in_place<Functor>(execution, communicator, view);
  }
}

/// The same from `send`, which is only read, to `receive`, which has as many elements (each shard of `send`) and no
/// memory in common with it. Throws InputError also if the sizes do not match, for the number of shards where there are
/// some, or if the Views overlap.
template <class Functor = comm::Named, class ExecutionSpace, class Send, class Receive>
  requires(!std::is_convertible_v<Receive, AllReduceOptions>)
Request all_reduce(const ExecutionSpace& execution, const Communicator& communicator, const Send& send,
                   const Receive& receive, AllReduceOptions options = {},
                   std::source_location where = std::source_location::current()) {
  comm::check_pair<Send, Receive>();
  comm::check_apart({"all_reduce", where}, send, receive);
  comm::check_reduction<typename Receive::non_const_value_type, Functor>();
  constexpr bool always = comm::always_in_order<typename Receive::non_const_value_type, Functor>;
  if (always || options.reproducible || options.shards > 0) {
    const std::size_t shards = comm::shards_of(communicator, options.shards);
    comm::check_shards({"all_reduce", where}, communicator, shards, receive.size(), send.size());
    return comm::reduce_in_order<Functor>(execution, communicator, {.name = "all_reduce", .where = where},
                                          options.deadline, "kerkis::all_reduce", send, receive, true,
                                          options.operation, {.count = receive.size(), .shards = shards});
  }
  if constexpr (!always) {
    const comm::ElementWise all{&MPI_Iallreduce,  "all_reduce", "kerkis::all_reduce", false, options.operation,
                                options.deadline, where};
    return all.between<Functor, comm::Access::write>(execution, communicator, send, receive);
  }
}

}  // namespace kerkis
