// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <source_location>
#include <type_traits>

#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/persistent.hpp>

namespace kerkis {

namespace comm {

/// All ranks meet where they make a persistent collective: MPI may block there, without a deadline, and the checking
/// mode compares what they make.
inline void meet(const Communicator& communicator, const Operation& made, std::chrono::milliseconds deadline) {
  require_deadline(made.caller(), deadline);
  if (communicator.size() == 1) return;
  Request::start(communicator, made, deadline, nullptr, [native = communicator.native()](MPI_Request* request) {
    return MPI_Ibarrier(native, request);
  }).wait();
}

}  // namespace comm

/// An in-place `all_reduce` that repeats. Making it is collective and waits for the other ranks, under the deadline; so
/// are its rounds, which all ranks start in the same order. Arguments and errors are those of `all_reduce`. See
/// docs/contract.md.
template <class Functor = comm::Named, class ExecutionSpace, class View>
PersistentRequest persistent_all_reduce(const ExecutionSpace& execution, const Communicator& communicator,
                                        const View& view, AllReduceOptions options = {},
                                        std::source_location where = std::source_location::current()) {
  comm::check_written<View>();
  using Element = typename View::non_const_value_type;
  comm::check_reduction<Element, Functor>();
  constexpr bool in_float = comm::is_half<Element> && std::is_same_v<Functor, comm::Named>;
  const auto reduction = comm::native_operation<std::conditional_t<in_float, float, Element>, Functor>(
      communicator, options.operation, {"persistent_all_reduce", where});
  comm::check_shards_in_place({"persistent_all_reduce", where}, communicator, options.shards);
  comm::meet(communicator,
             {.name = "persistent_all_reduce",
              .type = comm::datatype<Element>(communicator).name,
              .count = view.size(),
              .reduction = reduction.name,
              .where = where},
             options.deadline);
#if MPI_VERSION >= 4
  if constexpr (!comm::always_in_order<Element, Functor>) {
    if (!options.reproducible && options.shards == 0 &&
        comm::repeats(communicator, view.size() <= communicator.options().largest_count)) {
      using Rounds = comm::WireRounds<comm::Access::read_write, ExecutionSpace, View>;
      return PersistentRequest::make(
          communicator, {.name = "all_reduce", .reduction = reduction.name, .where = where}, options.deadline,
          std::make_unique<Rounds>(execution, communicator, view, "kerkis::all_reduce", reduction.own),
          [&](void* data, int count, MPI_Datatype type, MPI_Request* request) {
            return MPI_Allreduce_init(MPI_IN_PLACE, data, count, type, reduction.native, communicator.native(),
                                      MPI_INFO_NULL, request);
          });
    }
  }
#endif
  return PersistentRequest::restarting(communicator, {"all_reduce", where},
                                       [execution, communicator, view, options, where] {
                                         return all_reduce<Functor>(execution, communicator, view, options, where);
                                       });
}

/// A `broadcast` that repeats; the same holds.
template <class ExecutionSpace, class View>
PersistentRequest persistent_broadcast(const ExecutionSpace& execution, const Communicator& communicator,
                                       const View& view, BroadcastOptions options = {},
                                       std::source_location where = std::source_location::current()) {
  comm::check_written<View>();
  comm::check_root({"persistent_broadcast", where}, communicator, options.root);
  comm::meet(communicator,
             {.name = "persistent_broadcast",
              .type = comm::datatype<typename View::non_const_value_type>(communicator).name,
              .count = view.size(),
              .root = options.root,
              .where = where},
             options.deadline);
#if MPI_VERSION >= 4
  if (comm::repeats(communicator, view.size() <= communicator.options().largest_count)) {
    const auto make = [&]<comm::Access access>() {
      using Rounds = comm::WireRounds<access, ExecutionSpace, View>;
      return PersistentRequest::make(
          communicator, {.name = "broadcast", .root = options.root, .where = where}, options.deadline,
          std::make_unique<Rounds>(execution, communicator, view, "kerkis::broadcast"),
          [&](void* data, int count, MPI_Datatype type, MPI_Request* request) {
            return MPI_Bcast_init(data, count, type, options.root, communicator.native(), MPI_INFO_NULL, request);
          });
    };
    return communicator.rank() == options.root ? make.template operator()<comm::Access::read>()
                                               : make.template operator()<comm::Access::write>();
  }
#endif
  return PersistentRequest::restarting(communicator, {"broadcast", where},
                                       [execution, communicator, view, options, where] {
                                         return broadcast(execution, communicator, view, options, where);
                                       });
}

}  // namespace kerkis
