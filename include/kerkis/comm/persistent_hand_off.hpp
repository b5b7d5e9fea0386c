// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <source_location>

#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/persistent.hpp>

namespace kerkis {

namespace comm {

/// Of a receive, which unpacks as much as has come.
template <class ExecutionSpace, class View>
class ReceiveRounds final : public WireRounds<Access::write, ExecutionSpace, View> {
 public:
  ReceiveRounds(const ExecutionSpace& execution, const Communicator& communicator, const View& view, const char* fence,
                Received* received)
      : WireRounds<Access::write, ExecutionSpace, View>(execution, communicator, view, fence), received_(received) {}

  void end(const MPI_Status& status) override {
    const std::size_t count = elements_of(status, this->run().type.native, sizeof(typename View::value_type));
    this->wire_.finish(count);
    if (received_ != nullptr) *received_ = {status.MPI_SOURCE, count};
  }

 private:
  Received* received_;
};

}  // namespace comm

/// A `send` that repeats; its messages can be received by any receive. Arguments and errors are those of `send`.
/// See docs/contract.md.
template <class ExecutionSpace, class View>
PersistentRequest persistent_send(const ExecutionSpace& execution, const Communicator& communicator, const View& view,
                                  SendOptions options, std::source_location where = std::source_location::current()) {
  static_assert(Kokkos::is_view_v<View>, "kerkis: communication takes Kokkos Views");
  const comm::Caller caller{"persistent_send", where};
  comm::check_peer(caller, communicator, options.to);
  comm::check_tag(caller, communicator, options.tag);
  comm::require_deadline(caller, options.deadline);
  if (!comm::repeats(communicator, view.size() < comm::piece_length(communicator, sizeof(typename View::value_type))))
    return PersistentRequest::restarting(communicator, {"send", where},
                                         [execution, communicator, view, options, where] {
                                           return send(execution, communicator, view, options, where);
                                         });
  using Rounds = comm::WireRounds<comm::Access::read, ExecutionSpace, View>;
  return PersistentRequest::make(
      communicator, {.name = "send", .to = options.to, .collective = false, .where = where}, options.deadline,
      std::make_unique<Rounds>(execution, communicator, view, "kerkis::send"),
      [&](const void* data, int count, MPI_Datatype type, MPI_Request* request) {
        return MPI_Send_init(data, count, type, options.to, options.tag, communicator.native(), request);
      });
}

/// A `receive` that repeats; it takes the messages of any send. Arguments and errors are those of `receive`, `received`
/// lives as long as the object and its round. See docs/contract.md.
template <class ExecutionSpace, class View>
PersistentRequest persistent_receive(const ExecutionSpace& execution, const Communicator& communicator,
                                     const View& view, ReceiveOptions options,
                                     std::source_location where = std::source_location::current()) {
  comm::check_written<View>();
  const comm::Caller caller{"persistent_receive", where};
  comm::check_source(caller, communicator, options.from);
  comm::check_tag(caller, communicator, options.tag);
  comm::require_deadline(caller, options.deadline);
  if (!comm::repeats(communicator, view.size() < comm::piece_length(communicator, sizeof(typename View::value_type))))
    return PersistentRequest::restarting(communicator, {"receive", where},
                                         [execution, communicator, view, options, where] {
                                           return receive(execution, communicator, view, options, where);
                                         });
  using Rounds = comm::ReceiveRounds<ExecutionSpace, View>;
  const int from = options.from == any_rank ? MPI_ANY_SOURCE : options.from;
  return PersistentRequest::make(
      communicator, {.name = "receive", .from = options.from, .collective = false, .where = where}, options.deadline,
      std::make_unique<Rounds>(execution, communicator, view, "kerkis::receive", options.received),
      [&](void* data, int count, MPI_Datatype type, MPI_Request* request) {
        return MPI_Recv_init(data, count, type, from, options.tag, communicator.native(), request);
      });
}

}  // namespace kerkis
