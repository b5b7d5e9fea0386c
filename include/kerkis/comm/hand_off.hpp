// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <memory>
#include <source_location>
#include <utility>

#include <kerkis/comm/collective.hpp>
#include <kerkis/comm/message.hpp>
#include <kerkis/comm/peer.hpp>
#include <kerkis/comm/request.hpp>

namespace kerkis {

/// Of `send`. What holds for every operation (buffers, order, progress, failure) is in docs/contract.md.
struct SendOptions {
  int to = no_rank;                       ///< must be given
  int tag = 0;                            ///< from 0 to 7/8 of MPI_TAG_UB
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};
/// Of `receive`.
struct ReceiveOptions {
  int from = no_rank;            ///< must be given; or `any_rank`
  int tag = 0;                   ///< the sender's
  Received* received = nullptr;  ///< told who sent how much; lives until the operation is complete, detached ones too
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};

namespace comm {

inline void check_tag(Caller caller, const Communicator& communicator, int tag) {
  const int largest = largest_tag(communicator, caller.name);
  require(tag >= 0 && tag <= largest, caller, ": tag ", tag, " is none of 0 to ", largest);
}

[[noreturn, gnu::cold, gnu::noinline]] inline void refuse_peer(Caller caller, const Communicator& communicator,
                                                               int peer) {
  if (peer == no_rank) throw InputError(message(caller, ": the other rank is not given"));
  if (peer == any_rank) throw InputError(message(caller, ": any_rank is for receives alone"));
  throw InputError(message(caller, ": ", peer, " is no other rank of '", communicator.name(), "'"));
}

inline void check_peer(Caller caller, const Communicator& communicator, int peer) {
  if (peer < 0 || peer >= communicator.size() || peer == communicator.rank()) [[unlikely]]
    refuse_peer(caller, communicator, peer);
}

inline void check_source(Caller caller, const Communicator& communicator, int peer) {
  if (peer != any_rank) return check_peer(caller, communicator, peer);
  require(communicator.size() > 1, caller, ": '", communicator.name(), "' has no other rank");
}

/// Keeps the wire of a receive; sees to it that whole elements have come, and unpacks as many.
template <class Wire>
class KeepReceived final : public Steps {
 public:
  template <class Use>
  KeepReceived(const Use& use, Received* received)
      : wire_(use), run_(wire_.run(use.communicator)), received_(received) {}

  const Run<typename Wire::Element>& run() const { return run_; }
  bool next(MPI_Request&, const MPI_Status& status) override {
    const std::size_t count = elements_of(status, run_.type.native, sizeof(typename Wire::Element));
    wire_.finish(count);
    if (received_ != nullptr) *received_ = {status.MPI_SOURCE, count};
    return true;
  }

 private:
  Wire wire_;
  Run<typename Wire::Element> run_;
  Received* received_;
};

}  // namespace comm

/// Sends `view` to rank `to`, which receives with the same tag; messages of one tag arrive in order. `execution` is
/// fenced first; the View must not be written until the request is complete. Elements go in the order that
/// docs/contract.md gives them.
/// Throws InputError for a peer that is no other rank or a tag out of range, CommError if MPI fails.
template <class ExecutionSpace, class View>
Request send(const ExecutionSpace& execution, const Communicator& communicator, const View& view, SendOptions options,
             std::source_location where = std::source_location::current()) {
  static_assert(Kokkos::is_view_v<View>, "kerkis: communication takes Kokkos Views");
  using Element = typename View::non_const_value_type;
  const comm::Caller caller{"send", where};
  comm::check_peer(caller, communicator, options.to);
  comm::check_tag(caller, communicator, options.tag);
  const char* const fence = "kerkis::send";
  comm::Operation operation{.name = "send",
                            .type = comm::datatype<Element>(communicator).name,
                            .count = view.size(),
                            .to = options.to,
                            .collective = false,
                            .where = where};
  if (view.size() >= comm::piece_length(communicator, sizeof(Element))) {
    auto steps = std::make_unique<comm::LongMessage<true, ExecutionSpace, View>>(
        execution, communicator, view, options.to, options.tag, fence, nullptr);
    return Request::start(communicator, operation, options.deadline, std::move(steps),
                          [side = &steps->side()](MPI_Request* request) { return side->begin(request); });
  }
  auto wire = comm::keep(communicator, comm::use<comm::Access::send>(execution, communicator, view, fence));
  const auto run = std::get<0>(wire->runs(communicator));
  return Request::start(
      communicator, operation, options.deadline, std::move(wire),
      [run, peer = options.to, tag = options.tag, native = communicator.native()](MPI_Request* request) {
        return MPI_Isend(run.data, static_cast<int>(run.count), run.type.native, peer, tag, native, request);
      });
}

/// Receives `view` from rank `from`. A longer message is a CommError, and so is one that ends within an element, whose
/// sender has sent another type; a shorter one leaves the rest of the View as it was. `execution` is fenced first; the
/// View must be neither read nor written until the request is complete. Throws InputError for a peer that is no other
/// rank or a tag out of range, CommError if MPI fails.
template <class ExecutionSpace, class View>
Request receive(const ExecutionSpace& execution, const Communicator& communicator, const View& view,
                ReceiveOptions options, std::source_location where = std::source_location::current()) {
  comm::check_written<View>();
  using Element = typename View::non_const_value_type;
  const comm::Caller caller{"receive", where};
  comm::check_source(caller, communicator, options.from);
  comm::check_tag(caller, communicator, options.tag);
  const char* const fence = "kerkis::receive";
  const int from = options.from == any_rank ? MPI_ANY_SOURCE : options.from;
  comm::Operation operation{.name = "receive",
                            .type = comm::datatype<Element>(communicator).name,
                            .count = view.size(),
                            .from = options.from,
                            .collective = false,
                            .where = where};
  if (view.size() >= comm::piece_length(communicator, sizeof(Element))) {
    auto steps = std::make_unique<comm::LongMessage<false, ExecutionSpace, View>>(execution, communicator, view, from,
                                                                                  options.tag, fence, options.received);
    return Request::start(communicator, operation, options.deadline, std::move(steps),
                          [side = &steps->side()](MPI_Request* request) { return side->begin(request); });
  }
  using Kept = comm::KeepReceived<comm::Wire<comm::Access::write, ExecutionSpace, View>>;
  std::unique_ptr<Kept> kept(new (comm::resources(communicator, fence)) Kept(
      comm::use<comm::Access::write>(execution, communicator, view, fence), options.received));
  const auto run = kept->run();
  return Request::start(communicator, operation, options.deadline, std::move(kept),
                        [run, from, tag = options.tag, native = communicator.native()](MPI_Request* request) {
                          return MPI_Irecv(run.data, static_cast<int>(run.count), run.type.native, from, tag, native,
                                           request);
                        });
}

}  // namespace kerkis
