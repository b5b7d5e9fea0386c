// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

#include <kerkis/comm/mpi.hpp>

namespace kerkis::comm {

/// Carries the first failure of any rank to all others: a receive is kept posted for it on a communicator of its own.
/// From then on that communicator and all that share the channel are poisoned.
class FailureChannel {
 public:
  /// Collective over `user`, under the deadline.
  FailureChannel(MPI_Comm user, const Construction& construction) : native_(duplicate(user, construction, false)) {
    check(MPI_Comm_set_errhandler(native_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(native_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(native_, &size_), "MPI_Comm_size");
    check(MPI_Irecv(incoming_.data(), static_cast<int>(incoming_.size()), MPI_CHAR, MPI_ANY_SOURCE, 0, native_,
                    &receive_),
          "MPI_Irecv");
  }
  FailureChannel(const FailureChannel&) = delete;
  FailureChannel& operator=(const FailureChannel&) = delete;

  /// Withdraws the receive; before MPI_Finalize, and after the last failure can have come.
  void end() {
    if (!mpi_is_alive()) {
      leak(std::move(incoming_));
      return;
    }
    int done = 1;
    if (receive_ != MPI_REQUEST_NULL) {
      bool withdrawn = false;
      withdraw(receive_, withdrawn);
      MPI_Test(&receive_, &done, MPI_STATUS_IGNORE);
    }
    if (done == 0) leak(std::move(incoming_));  // an announcement is coming in, perhaps never to the end
    if (failed() || done == 0) {
      const std::lock_guard<std::mutex> lock(left_behind().mutex);
      left_behind().communicators.push_back(native_);
    } else {
      MPI_Comm_free(&native_);
    }
  }

  MPI_Comm native() const { return native_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  /// On any thread.
  bool failed() const { return failed_.load(std::memory_order_acquire); }

  /// Lets MPI move pending communication on. Throws the failure that a rank has announced, if any.
  void poll() {
    if (!failed()) {
      int done = 0;
      MPI_Status status;
      check(MPI_Test(&receive_, &done, &status), "MPI_Test", rank_);
      if (done == 0) return;
      int length = 0;
      MPI_Get_count(&status, MPI_CHAR, &length);
      const std::string_view words(incoming_.data(), static_cast<std::size_t>(length));
      failure_ = std::make_exception_ptr(announced(words, status.MPI_SOURCE));
      failed_.store(true, std::memory_order_release);
    }
    std::rethrow_exception(failure_);
  }

  /// Tells every other rank that this one gives up. Only the first call has an effect.
  void announce(const std::exception& error) noexcept {
    if (failed() || !mpi_is_alive()) return;
    const auto* const outgoing = &leak(announcement(fail(error)));
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      MPI_Request request = MPI_REQUEST_NULL;  // never completed: the peer may be gone
      MPI_Isend(outgoing->data(), static_cast<int>(outgoing->size()), MPI_CHAR, peer, 0, native_, &request);
    }
  }

  /// As `announce`, but tells nobody.
  CommError fail(const std::exception& error) {
    CommError first(error.what(), rank_);
    if (const auto* const known = dynamic_cast<const CommError*>(&error))
      first = {known->what(), rank_,         known->operation(), known->mpi_class(),
               known->axis(), known->peer(), known->where()};
    if (failed()) return first;
    failure_ = std::make_exception_ptr(first);
    failed_.store(true, std::memory_order_release);
    return first;
  }

 private:
  /// As it goes to the other ranks: parts that end with a null, and the text.
  static std::string announcement(const CommError& error) {
    return message(error.mpi_class(), '\0', error.peer(), '\0', error.operation(), '\0', error.axis(), '\0',
                   error.what())
        .substr(0, longest_announcement);
  }
  static PeerError announced(std::string_view words, int rank) {
    const auto next = [&words] {
      const std::string part(words.substr(0, words.find('\0')));
      words.remove_prefix(std::min(part.size() + 1, words.size()));
      return part;
    };
    const int its_class = std::atoi(next().c_str()), peer = std::atoi(next().c_str());
    const std::string operation = next(), axis = next();
    return {message("rank ", rank, ": ", words), rank, operation, its_class, axis, peer};
  }

  MPI_Comm native_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::string incoming_ = std::string(longest_announcement, '\0');
  MPI_Request receive_ = MPI_REQUEST_NULL;
  std::exception_ptr failure_;
  std::atomic<bool> failed_{false};  // set after `failure_`
};

}  // namespace kerkis::comm
