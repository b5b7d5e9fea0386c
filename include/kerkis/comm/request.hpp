// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <kerkis/comm/communicator.hpp>

namespace kerkis {

/// A nonblocking operation. Move-only; it keeps its communicator and its managed Views alive, and completes once. Until
/// then the buffers belong to the operation: they may be neither written nor, if they receive, read. What was received
/// is in the View when `wait` has returned or `test` has returned true.
///
/// The destructor waits, under the deadline. While an exception unwinds that came after the start, or after a failure,
/// it does not: unless a test finds it complete the communicator is poisoned and what is pending is leaked with its
/// buffers, since MPI may still write to them.
///
/// See docs/contract.md for buffers, order, progress, deadlines and failure.
class Request {
 public:
  Request() = default;                                ///< complete
  Request(const Request&) = delete;                   // kerkis: a Request is moved, not copied: std::move(request)
  Request& operator=(const Request&) = delete;        // kerkis: the same
  Request(Request&& other) noexcept { swap(other); }  ///< leaves the other one complete
  /// Waits for what it held, as the destructor does.
  Request& operator=(Request&& other) noexcept {
    Request taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Request() {
    if (pending()) finish();
  }

  /// Whether it is complete. Throws CommError.
  bool test() {
    if (pending() && engine().test(*pending_)) release();
    return !pending();
  }

  /// Returns when it is complete. Throws CommError, at the latest when the deadline has passed. A completed request
  /// returns at once.
  void wait() {
    if (!pending()) return;
    engine().wait(*pending_);
    release();
  }

  /// Whether it is under way.
  bool pending() const { return static_cast<bool>(communicator_.state()); }

  /// Withdraws a receive to which no message has come: returns true, and the request is complete without having
  /// received. Returns false for everything else, which goes on.
  bool cancel() {
    if (!pending() || pending_->complete || pending_->operation.collective || *pending_->operation.name != 'r' ||
        pending_->request == MPI_REQUEST_NULL)  // the rest of a message
      return false;
    const auto here = engine().inside("cancel() of", pending_->operation);
    bool withdrawn = false;
    engine().check_operation(comm::withdraw(pending_->request, withdrawn), pending_->operation);
    if (withdrawn) release();
    return withdrawn;
  }

  /// The operation goes on without this handle, its buffers kept: `poll` and every wait of its communicator move it
  /// on.
  void detach() {
    if (!pending()) return;
    engine().detach(*pending_, communicator_.state()->group);
    communicator_ = Communicator();
  }

  /// For who waits by `test` and other means: throws the deadline's report, on every rank, once `waited` has passed it,
  /// and before that prints it if `first` is true. `also` is put behind it.
  void check_deadline(std::chrono::milliseconds waited, bool first, std::string_view also = {}) {
    if (pending()) engine().check_deadline(*pending_, waited, first, also);
  }
  /// Whether something is pending whose deadline `waited` has reached.
  bool expired(std::chrono::milliseconds waited) const {
    return pending() && engine().expired(pending_->deadline, waited);
  }

  /// What is pending, for messages: "all_reduce #7 of 4096 float over 'data', called at trainer.hpp:88"; else "".
  std::string text() const { return pending() ? pending_->operation.text() : std::string(); }

  /// For waits for several requests: `test` without its poll.
  bool advance() {
    if (pending() && engine().advance(*pending_)) release();
    return !pending();
  }
  /// Where it is under way; the default one if it is complete.
  const Communicator& communicator() const { return communicator_; }
  /// The progress engine of what is pending: something must be.
  comm::Engine& engine() const { return *communicator_.state()->engine; }

  /// What is under way; null if it is complete.
  const comm::Pending* operation() const { return pending() ? pending_ : nullptr; }

  /// For the operations of the library: starts what `begin(MPI_Request*)`, which holds all that it needs by value,
  /// returns the MPI code of; in checking mode later than here. `steps` lives until completion.
  template <class Begin>
  static Request start(const Communicator& communicator, const comm::Operation& operation,
                       std::chrono::milliseconds deadline, std::unique_ptr<comm::Steps> steps, const Begin& begin) {
    const auto& state = *communicator.state();
    return {state.engine->start(state.group, operation, deadline, std::move(steps), begin), communicator};
  }

 private:
  Request(comm::Pending& pending, const Communicator& communicator)
      : pending_(&pending), exceptions_(std::uncaught_exceptions()), communicator_(communicator) {}
  void swap(Request& other) noexcept {
    std::swap(pending_, other.pending_);
    std::swap(exceptions_, other.exceptions_);
    std::swap(communicator_, other.communicator_);
  }
  void release() {
    engine().remove(*pending_);
    const Communicator last = std::move(communicator_);
  }
  [[gnu::noinline]] void finish() noexcept {
    if (comm::mpi_is_alive() && !engine().poisoned()) {
      try {
        if (std::uncaught_exceptions() <= exceptions_) return wait();
        if (advance()) return;
      } catch (const std::exception& error) {
        comm::report_unheard("a request was destroyed", error);
      }
    }
    engine().abandon(*pending_, communicator_.state()->group);
    communicator_ = Communicator();
  }

  comm::Pending* pending_ = nullptr;
  int exceptions_ = 0;  // uncaught when it was started
  Communicator communicator_;
};

namespace comm {

/// Whether there is no other rank: an operation that needs one is complete at once. Throws InputError for a deadline
/// that means nothing, as else the start does.
inline bool alone(Caller caller, const Communicator& communicator, std::chrono::milliseconds deadline) {
  if (communicator.size() > 1) return false;
  require_deadline(caller, deadline);
  return true;
}

}  // namespace comm
}  // namespace kerkis
