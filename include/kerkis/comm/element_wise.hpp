// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <source_location>
#include <type_traits>
#include <utility>

#include <kerkis/comm/collective.hpp>
#include <kerkis/comm/reduction.hpp>

namespace kerkis::comm {

/// The sums of half types, in float, that become the run when they are complete: rounded once.
template <class Half>
class InFloat {
 public:
  InFloat(const Communicator& communicator, const Run<Half>& from)
      : block_(Resources::lend(resources(communicator), host_buffers(), from.count * sizeof(float))),
        to_{nullptr, from.count, from.type} {
    std::copy_n(from.data, from.count, floats());
  }
  /// `to` as complete; null: nowhere.
  void round_to(Half* to) { to_.data = to; }
  AnyRun run() const { return Run<float>{floats(), to_.count, {MPI_FLOAT, to_.type.name}}; }
  void finish() {
    if (to_.data == nullptr) return;
    for (std::size_t i = 0; i < to_.count; ++i) to_.data[i] = static_cast<Half>(floats()[i]);
  }

 private:
  float* floats() const { return static_cast<float*>(block_.data()); }

  Block block_;
  Run<Half> to_;
};

/// What all_reduce, scan and exclusive_scan have in common. `Call`: of MPI_Iallreduce. (A template is compiled where it
/// is used.)
template <class Call>
struct ElementWise {
  Call call;
  const char* name;
  const char* fence;
  bool exclusive;  ///< rank 0 gets nothing
  Reduction reduction;
  std::chrono::milliseconds deadline;
  std::source_location where;

  /// `from`: what this rank gives, or MPI_IN_PLACE.
  Request start(const Communicator& communicator, const NativeOperation& operation, const void* from, const AnyRun& to,
                std::unique_ptr<Steps> steps) const {
    const Pieces pieces(communicator, to.count);
    return start_pieces(communicator,
                        {.name = name,
                         .type = to.type.name,
                         .order = to.type.order,
                         .count = to.count,
                         .reduction = operation.name,
                         .where = where},
                        deadline, pieces.number(), std::move(steps),
                        [function = call, from, to, pieces, op = operation.native,
                         native = communicator.native()](std::size_t piece, MPI_Request* request) {
                          const std::size_t begin = pieces.begin(piece);
                          const void* const send =
                              from == MPI_IN_PLACE ? from : static_cast<const std::byte*>(from) + begin * to.element;
                          return function(send, to.at(begin), pieces.size(piece), to.type.native, op, native, request);
                        });
  }

  template <class Functor, class ExecutionSpace, class View>
  Request in_place(const ExecutionSpace& execution, const Communicator& communicator, const View& view) const {
    check_written<View>();
    using Element = typename View::non_const_value_type;
    check_reduction<Element, Functor>();
    constexpr bool in_float = is_half<Element> && std::is_same_v<Functor, Named>;
    const auto operation =
        native_operation<std::conditional_t<in_float, float, Element>, Functor>(communicator, reduction, {name, where});
    if (alone({name, where}, communicator, deadline)) {
      comm::fence(execution, fence);
      return {};
    }
    auto wire =
        keep(communicator, use<Access::read_write>(execution, communicator, view, fence, operation.own || in_float));
    const auto [run] = wire->runs(communicator);
    if constexpr (in_float)
      return start_in_float(communicator, operation, run, run.data, std::move(wire));
    else
      return start(communicator, operation, MPI_IN_PLACE, run, std::move(wire));
  }

  /// The caller has checked the pair. `access`: to `receive`, which MPI need not write on every rank.
  template <class Functor, Access access, class ExecutionSpace, class Send, class Receive>
  Request between(const ExecutionSpace& execution, const Communicator& communicator, const Send& send,
                  const Receive& receive) const {
    using Element = typename Receive::non_const_value_type;
    check_reduction<Element, Functor>();
    constexpr bool in_float = is_half<Element> && std::is_same_v<Functor, Named>;
    check_sizes({name, where}, send, receive);
    const auto operation =
        native_operation<std::conditional_t<in_float, float, Element>, Functor>(communicator, reduction, {name, where});
    if (alone({name, where}, communicator, deadline)) {
      if (!exclusive) return copy(execution, communicator, send, receive, fence);
      comm::fence(execution, fence);
      return {};
    }
    const bool on_host = in_float || operation.own;
    auto wires = keep(communicator, use<Access::read>(execution, communicator, send, fence, on_host),
                      use<access>(execution, communicator, receive, fenced, on_host));
    const auto [in, out] = wires->runs(communicator);
    if constexpr (in_float)
      return start_in_float(communicator, operation, in, out.data, std::move(wires));
    else
      return start(communicator, operation, in.data, out, std::move(wires));
  }

 private:
  template <class Half>
  Request start_in_float(const Communicator& communicator, const NativeOperation& operation, const Run<Half>& from,
                         Half* to, std::unique_ptr<Steps> steps) const {
    InFloat<Half> floats(communicator, from);
    if (!exclusive || communicator.rank() > 0) floats.round_to(to);
    const AnyRun run = floats.run();
    return start(communicator, operation, MPI_IN_PLACE, run, with(std::move(floats), std::move(steps)));
  }
};

}  // namespace kerkis::comm
