// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <utility>

#include <kerkis/comm/communicator.hpp>

namespace kerkis {

/// A nonblocking operation. Move-only; it keeps its communicator and its managed Views alive, and completes once. Until
/// then the buffers belong to the operation: they may be neither written nor, if they receive, read.
///
/// The destructor waits, under the deadline. While an exception unwinds, or after a failure, it does not: the
/// communicator is poisoned and what is pending is leaked with its buffers, since MPI may still write to them.
class Request {
 public:
  Request() = default;  ///< complete
  Request(Request&& other) noexcept { swap(other); }
  Request& operator=(Request&& other) noexcept {
    Request taken(std::move(other));
    swap(taken);
    return *this;
  }
  ~Request() { finish(); }

  /// Whether it is complete. Throws CommError.
  bool test() {
    if (pending() && communicator_.state()->engine->test(request_, operation_)) release();
    return !pending();
  }

  /// Returns when it is complete. Throws CommError, at the latest when the deadline has passed. A completed request
  /// returns at once.
  void wait() {
    if (!pending()) return;
    communicator_.state()->engine->wait(request_, operation_, deadline_);
    release();
  }

  bool pending() const { return static_cast<bool>(communicator_.state()); }

  /// For the operations of the library: starts what `start(MPI_Request*)` returns the MPI code of. `buffers` lives
  /// until completion.
  template <class Start>
  static Request start(const Communicator& communicator, comm::Operation operation, std::chrono::milliseconds deadline,
                       std::shared_ptr<void> buffers, Start&& begin) {
    auto& state = *communicator.state();
    if (state.engine->poisoned()) state.engine->poll();
    Request result;
    operation.axis = state.name.c_str();
    operation.sequence = ++state.sequence;
    state.engine->check_operation(begin(&result.request_), operation);
    result.operation_ = operation;
    result.deadline_ = deadline;
    result.buffers_ = std::move(buffers);
    result.communicator_ = communicator;
    return result;
  }

 private:
  void swap(Request& other) noexcept {
    std::swap(request_, other.request_);
    std::swap(operation_, other.operation_);
    std::swap(deadline_, other.deadline_);
    std::swap(buffers_, other.buffers_);
    std::swap(communicator_, other.communicator_);
  }
  void release() {
    buffers_.reset();
    communicator_ = Communicator();
  }
  void finish() noexcept {
    if (!pending()) return;
    auto& engine = *communicator_.state()->engine;
    if (comm::mpi_is_alive() && !engine.poisoned() && std::uncaught_exceptions() == 0) {
      try {
        return wait();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "kerkis: while a request was destroyed: %s\n", error.what());
      }
    }
    engine.announce(message("an exception abandoned ", operation_.text(), " on rank ", engine.rank()));
    comm::leak(std::move(buffers_));
    comm::leak(std::move(communicator_));
  }

  MPI_Request request_ = MPI_REQUEST_NULL;
  comm::Operation operation_;
  std::chrono::milliseconds deadline_{};
  std::shared_ptr<void> buffers_;
  Communicator communicator_;
};

}  // namespace kerkis
