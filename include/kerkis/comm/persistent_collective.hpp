// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <source_location>
#include <utility>

#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/persistent.hpp>

namespace kerkis {

#if MPI_VERSION >= 4
namespace comm {

/// Whether MPI repeats this collective itself. The checking mode compares every round, so it starts each anew.
inline bool repeats(const Communicator& communicator, std::size_t count) {
  return communicator.size() > 1 && !communicator.state()->engine->options().check &&
         count <= communicator.state()->engine->options().largest_count;
}

/// All ranks meet first, since what makes a persistent collective may block, without a deadline.
inline void meet(const Communicator& communicator, std::chrono::milliseconds deadline,
                 const std::source_location& where) {
  barrier(communicator, {.deadline = deadline}, where).wait();
}

}  // namespace comm
#endif

/// An in-place `all_reduce` that repeats. Making it is collective and waits for the other ranks, under the deadline; so
/// are its rounds, which all ranks start in the same order. Arguments and errors are those of `all_reduce`.
template <class Functor = comm::Named, class ExecutionSpace, class View>
PersistentRequest persistent_all_reduce(const ExecutionSpace& execution, const Communicator& communicator,
                                        const View& view, AllReduceOptions options = {},
                                        std::source_location where = std::source_location::current()) {
  comm::check_written<View>();
#if MPI_VERSION >= 4
  if constexpr (!comm::always_in_order<typename View::value_type, Functor>) {
    if (!options.reproducible && options.shards == 0 && comm::repeats(communicator, view.size())) {
      using Wire = comm::Wire<comm::Access::read_write, ExecutionSpace, View>;
      const char* const fence = "kerkis::all_reduce";
      const auto reduction = comm::native_operation<typename View::non_const_value_type, Functor>(
          communicator, options.operation, "all_reduce");
      comm::meet(communicator, options.deadline, where);
      Wire wire(execution, communicator, view, fence);
      const auto run = wire.run();
      return PersistentRequest::make(
          communicator,
          {.name = "all_reduce",
           .type = run.type.name,
           .order = run.type.order,
           .count = run.count,
           .reduction = reduction.name,
           .where = where},
          options.deadline, std::make_unique<comm::WireRounds<ExecutionSpace, Wire>>(execution, fence, std::move(wire)),
          [run, op = reduction.native, native = communicator.native()](MPI_Request* request) {
            return MPI_Allreduce_init(MPI_IN_PLACE, run.data, static_cast<int>(run.count), run.type.native, op, native,
                                      MPI_INFO_NULL, request);
          });
    }
  }
#endif
  return PersistentRequest::restarting(communicator, "all_reduce", [execution, communicator, view, options, where] {
    return all_reduce<Functor>(execution, communicator, view, options, where);
  });
}

/// A `broadcast` that repeats; the same holds.
template <class ExecutionSpace, class View>
PersistentRequest persistent_broadcast(const ExecutionSpace& execution, const Communicator& communicator,
                                       const View& view, BroadcastOptions options = {},
                                       std::source_location where = std::source_location::current()) {
  comm::check_root("broadcast", communicator, options.root);
#if MPI_VERSION >= 4
  if (comm::repeats(communicator, view.size())) {
    comm::meet(communicator, options.deadline, where);
    const char* const fence = "kerkis::broadcast";
    const auto make = [&]<class Wire>(Wire&& wire) {
      const auto run = wire.run();
      return PersistentRequest::make(
          communicator,
          {.name = "broadcast",
           .type = run.type.name,
           .order = run.type.order,
           .count = run.count,
           .root = options.root,
           .where = where},
          options.deadline, std::make_unique<comm::WireRounds<ExecutionSpace, Wire>>(execution, fence, std::move(wire)),
          [run, root = options.root, native = communicator.native()](MPI_Request* request) {
            return MPI_Bcast_init(run.data, static_cast<int>(run.count), run.type.native, root, native, MPI_INFO_NULL,
                                  request);
          });
    };
    if (communicator.rank() == options.root)
      return make(comm::Wire<comm::Access::read, ExecutionSpace, View>(execution, communicator, view, fence));
    return make(comm::Wire<comm::Access::write, ExecutionSpace, View>(execution, communicator, view, fence));
  }
#endif
  return PersistentRequest::restarting(communicator, "broadcast", [execution, communicator, view, options, where] {
    return broadcast(execution, communicator, view, options, where);
  });
}

}  // namespace kerkis
