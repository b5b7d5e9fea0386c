// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <source_location>
#include <utility>

#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/persistent.hpp>

namespace kerkis {

namespace comm {

/// Of a receive, which unpacks as much as has come.
template <class ExecutionSpace, class Wire>
class ReceiveRounds final : public WireRounds<ExecutionSpace, Wire> {
 public:
  ReceiveRounds(const ExecutionSpace& execution, const char* fence, Wire&& wire, Received* received)
      : WireRounds<ExecutionSpace, Wire>(execution, fence, std::move(wire)), received_(received) {}

  void end(const MPI_Status& status) override {
    int count = 0;
    check(MPI_Get_count(&status, this->wire_.run().type.native, &count), "MPI_Get_count");
    this->wire_.finish(static_cast<std::size_t>(count));
    if (received_ != nullptr) *received_ = {status.MPI_SOURCE, static_cast<std::size_t>(count)};
  }

 private:
  Received* received_;
};

}  // namespace comm

/// A `send` that repeats; its messages can be received by any receive. Arguments and errors are those of `send`.
template <class ExecutionSpace, class View>
PersistentRequest persistent_send(const ExecutionSpace& execution, const Communicator& communicator, const View& view,
                                  SendOptions options, std::source_location where = std::source_location::current()) {
  using Element = typename View::non_const_value_type;
  using Wire = comm::Wire<comm::Access::read, ExecutionSpace, View>;
  const char* const fence = "kerkis::send";
  comm::check_peer("send", communicator, options.to);
  comm::check_tag("send", communicator, options.tag);
  if (view.size() >= comm::piece_length(communicator, sizeof(Element)))
    return PersistentRequest::restarting(communicator, "send", [execution, communicator, view, options, where] {
      return send(execution, communicator, view, options, where);
    });
  Wire wire(execution, communicator, view, fence);
  const auto run = wire.run();
  return PersistentRequest::make(
      communicator,
      {.name = "send",
       .type = run.type.name,
       .count = run.count,
       .peer = options.to,
       .collective = false,
       .where = where},
      options.deadline, std::make_unique<comm::WireRounds<ExecutionSpace, Wire>>(execution, fence, std::move(wire)),
      [run, options, native = communicator.native()](MPI_Request* request) {
        return MPI_Send_init(run.data, static_cast<int>(run.count), run.type.native, options.to, options.tag, native,
                             request);
      });
}

/// A `receive` that repeats; it takes the messages of any send. Arguments and errors are those of `receive`.
template <class ExecutionSpace, class View>
PersistentRequest persistent_receive(const ExecutionSpace& execution, const Communicator& communicator,
                                     const View& view, ReceiveOptions options,
                                     std::source_location where = std::source_location::current()) {
  using Element = typename View::non_const_value_type;
  using Wire = comm::Wire<comm::Access::write, ExecutionSpace, View>;
  const char* const fence = "kerkis::receive";
  comm::check_source("receive", communicator, options.from);
  comm::check_tag("receive", communicator, options.tag);
  if (view.size() >= comm::piece_length(communicator, sizeof(Element)))
    return PersistentRequest::restarting(communicator, "receive", [execution, communicator, view, options, where] {
      return receive(execution, communicator, view, options, where);
    });
  Wire wire(execution, communicator, view, fence);
  const auto run = wire.run();
  return PersistentRequest::make(
      communicator,
      {.name = "receive",
       .type = run.type.name,
       .count = run.count,
       .peer = options.from,
       .collective = false,
       .where = where},
      options.deadline,
      std::make_unique<comm::ReceiveRounds<ExecutionSpace, Wire>>(execution, fence, std::move(wire), options.received),
      [run, options, native = communicator.native()](MPI_Request* request) {
        return MPI_Recv_init(run.data, static_cast<int>(run.count), run.type.native,
                             options.from == any_rank ? MPI_ANY_SOURCE : options.from, options.tag, native, request);
      });
}

}  // namespace kerkis
