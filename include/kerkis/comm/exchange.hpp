// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <source_location>
#include <utility>

#include <kerkis/comm/hand_off.hpp>

namespace kerkis {

/// Of `exchange`. What holds for every operation (buffers, order, progress, failure) is in docs/contract.md.
struct ExchangeOptions {
  std::optional<int> with = {};           ///< the peer, both ways; `no_rank`: nobody
  std::optional<int> to = {};             ///< or one for each way: whom this rank sends to
  std::optional<int> from = {};           ///< and whom it receives from
  int tag = 0;                            ///< of both messages, as in SendOptions
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};

namespace comm {

/// A receive, in the operation's request, and a send beside it.
template <class SendWire, class ReceiveWire>
class KeepExchange final : public Steps {
 public:
  template <class SendUse, class ReceiveUse>
  KeepExchange(const SendUse& send, const ReceiveUse& receive)
      : send_(send), receive_(receive), out_(send_.run(send.communicator)), in_(receive_.run(receive.communicator)) {}

  int begin(int to, int from, int tag, MPI_Comm native, MPI_Request* request) {
    const int code = MPI_Irecv(in_.data, static_cast<int>(in_.count), in_.type.native, from, tag, native, request);
    if (code != MPI_SUCCESS) return code;
    return MPI_Isend(out_.data, static_cast<int>(out_.count), out_.type.native, to, tag, native, &sent_);
  }
  bool next(MPI_Request& request, const MPI_Status& status) override {
    if (!std::exchange(received_, true)) {
      receive_.finish(elements_of(status, in_.type.native, sizeof(typename ReceiveWire::Element)));
      request = std::exchange(sent_, MPI_REQUEST_NULL);
    }
    return request == MPI_REQUEST_NULL;
  }
  Sides sides() const override {
    int sent = 0;
    if (!received_) MPI_Request_get_status(sent_, &sent, MPI_STATUS_IGNORE);
    return {.send = {.under_way = sent == 0}, .receive = {.under_way = !received_}};
  }
  std::uint64_t checksum() const override { return send_.checksum(); }

 private:
  SendWire send_;
  ReceiveWire receive_;
  AnyRun out_, in_;
  MPI_Request sent_ = MPI_REQUEST_NULL;
  bool received_ = false;
};

/// The same with messages in pieces.
template <class ExecutionSpace, class Send, class Receive>
class LongExchange final : public Steps {
 public:
  LongExchange(const ExecutionSpace& execution, const Communicator& communicator, const Send& send,
               const Receive& receive, int to, int from, int tag, const char* fence, bool copied)
      : Steps(true), sends_(to != MPI_PROC_NULL), receives_(from != MPI_PROC_NULL),
        send_(execution, communicator, send, to, tag, fence, copied),
        receive_(execution, communicator, receive, from, tag, fence) {}

  int begin() {
    const int code = receives_ ? receive_.begin() : MPI_SUCCESS;
    return code == MPI_SUCCESS && sends_ ? send_.begin() : code;
  }
  bool next(MPI_Request&, const MPI_Status&) override {
    sends_ = sends_ && !send_.advance();
    receives_ = receives_ && !receive_.advance();
    return !sends_ && !receives_;
  }
  Sides sides() const override { return {.send = send_.side(), .receive = receive_.side()}; }
  std::uint64_t checksum() const override { return send_.checksum(); }

 private:
  bool sends_, receives_;
  MessageSide<true, ExecutionSpace, Send> send_;
  MessageSide<false, ExecutionSpace, Receive> receive_;
};

/// `name`: "exchange" or "shift"; peers are ranks or `no_rank`. The caller has checked the types. In place both Views
/// are the same: a copy goes out.
template <bool in_place = false, class ExecutionSpace, class Send, class Receive>
Request start_exchange(const ExecutionSpace& execution, const Communicator& communicator, const Send& send,
                       const Receive& receive, const char* name, const char* fence, const ExchangeOptions& options,
                       const std::source_location& where) {
  const Caller caller{name, where};
  if constexpr (!in_place) check_apart(caller, send, receive);
  using Element = typename Receive::value_type;
  const auto given_to = options.to ? options.to : options.with, given_from = options.from ? options.from : options.with;
  require(given_to.has_value() && given_from.has_value(), caller,
          given_to     ? ": .from is not given"
          : given_from ? ": .to is not given"
                       : ": the other rank is not given",
          "; kerkis::no_rank says that nobody is there");
  const int to = *given_to, from = *given_from, own = communicator.rank();
  for (const int peer : {to, from}) {
    require(peer != any_rank, caller, ": any_rank is for receives alone");
    require(peer == no_rank || (peer >= 0 && peer < communicator.size()), caller, ": ", peer, " is no rank of '",
            communicator.name(), "'");
  }
  require((to == own) == (from == own), caller, ": who sends to itself receives from itself, not to ", to, " and from ",
          from);
  if (to == own || (to == no_rank && from == no_rank)) {  // no message: what is wrong for one is wrong here too
    require(options.tag >= 0, caller, ": tag ", options.tag, " is less than 0");
    require_deadline(caller, options.deadline);
    if (in_place) comm::fence(execution, fence);
    if (in_place || to != own) return {};
    require(send.size() == receive.size(), caller, " of rank ", own, " with itself: ", send.size(),
            " elements do not fill ", receive.size());
    return copy(execution, communicator, send, receive, fence);
  }
  check_tag(caller, communicator, options.tag);
  const int mpi_to = to == no_rank ? MPI_PROC_NULL : to, mpi_from = from == no_rank ? MPI_PROC_NULL : from;
  const Operation operation{.name = name,
                            .type = datatype<Element>(communicator).name,
                            .count = from == no_rank ? send.size() : receive.size(),
                            .to = to,
                            .from = from,
                            .collective = false,
                            .where = where};
  const std::size_t length = piece_length(communicator, sizeof(Element));
  if (send.size() >= length || receive.size() >= length) {
    auto steps = std::make_unique<LongExchange<ExecutionSpace, Send, Receive>>(
        execution, communicator, send, receive, mpi_to, mpi_from, options.tag, fence, in_place);
    return Request::start(communicator, operation, options.deadline, std::move(steps),
                          [side = steps.get()](MPI_Request*) { return side->begin(); });
  }
  constexpr Access sent = in_place ? Access::read : Access::send;
  using SendWire = Wire<sent, ExecutionSpace, Send>;
  using ReceiveWire = Wire<Access::write, ExecutionSpace, Receive>;
  using Kept = KeepExchange<SendWire, ReceiveWire>;
  std::unique_ptr<Kept> steps(new (resources(communicator, fence))
                                  Kept(use<sent>(execution, communicator, send, fence, false, true, in_place),
                                       use<Access::write>(execution, communicator, receive, fenced)));
  return Request::start(communicator, operation, options.deadline, std::move(steps),
                        [side = steps.get(), mpi_to, mpi_from, tag = options.tag, native = communicator.native()](
                            MPI_Request* request) { return side->begin(mpi_to, mpi_from, tag, native, request); });
}

}  // namespace comm

/// Sends `send` to one rank and receives `receive` from one, at once, so that nobody waits for the other to begin:
/// `{.with = peer}`, or `{.to = right, .from = left}`, where `no_rank` is nobody, as at the rim of a grid: nothing
/// moves that way. With itself a rank copies, and the request is complete. Otherwise as `send` and `receive`: the
/// Views, which must not overlap, belong to the operation until the request is complete. Throws InputError for a peer
/// that is not given or no rank, or a tag out of range, CommError if MPI fails or the message is longer than `receive`.
template <class ExecutionSpace, class Send, class Receive>
Request exchange(const ExecutionSpace& execution, const Communicator& communicator, const Send& send,
                 const Receive& receive, ExchangeOptions options,
                 std::source_location where = std::source_location::current()) {
  comm::check_pair<Send, Receive>();
  return comm::start_exchange(execution, communicator, send, receive, "exchange", "kerkis::exchange", options, where);
}

/// The same in place, as MPI_Sendrecv_replace: what comes takes the place of what goes out, which is copied first.
/// Where nothing comes, and behind a shorter message, `view` stays as it was.
template <class ExecutionSpace, class View>
Request exchange(const ExecutionSpace& execution, const Communicator& communicator, const View& view,
                 ExchangeOptions options, std::source_location where = std::source_location::current()) {
  comm::check_written<View>();
  return comm::start_exchange<true>(execution, communicator, view, view, "exchange", "kerkis::exchange", options,
                                    where);
}

}  // namespace kerkis
