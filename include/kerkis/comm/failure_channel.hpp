// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <string>
#include <string_view>
#include <utility>

#include <kerkis/comm/mpi.hpp>

namespace kerkis::comm {

/// Carries the first failure of any rank to all others: a receive is kept posted for it on a communicator of its own.
/// From then on that communicator and all that share the channel are poisoned.
class FailureChannel {
 public:
  /// Collective over `user`, under the policy's deadline.
  FailureChannel(MPI_Comm user, const WaitPolicy& policy) : native_(duplicate(user, policy)) {
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
    if (failed() || done == 0)
      left_behind().communicators.push_back(native_);
    else
      MPI_Comm_free(&native_);
  }

  MPI_Comm native() const { return native_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  bool failed() const { return failed_rank_ >= 0; }

  /// Lets MPI move pending communication on. Throws the failure that a rank has announced, if any.
  void poll() {
    if (!failed()) {
      int done = 0;
      MPI_Status status;
      check(MPI_Test(&receive_, &done, &status), "MPI_Test", rank_);
      if (done == 0) return;
      int length = 0;
      MPI_Get_count(&status, MPI_CHAR, &length);
      failed_rank_ = status.MPI_SOURCE;
      failure_ = incoming_.substr(0, static_cast<std::size_t>(length));
    }
    if (failed_rank_ == rank_) throw CommError(failure_, rank_);
    throw PeerError(message("rank ", failed_rank_, ": ", failure_), failed_rank_);
  }

  /// Tells every other rank that this one gives up. Only the first call has an effect.
  void announce(std::string_view text) noexcept {
    if (failed() || !mpi_is_alive()) return;
    fail(text);
    const std::string& outgoing = leak(failure_);
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      MPI_Request request = MPI_REQUEST_NULL;  // never completed: the peer may be gone
      MPI_Isend(outgoing.data(), static_cast<int>(outgoing.size()), MPI_CHAR, peer, 0, native_, &request);
    }
  }

  /// As `announce`, but tells nobody.
  void fail(std::string_view text) {
    if (failed()) return;
    failed_rank_ = rank_;
    failure_ = text.substr(0, longest_announcement);
  }

 private:
  MPI_Comm native_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::string incoming_ = std::string(longest_announcement, '\0');
  MPI_Request receive_ = MPI_REQUEST_NULL;
  int failed_rank_ = -1;  // nobody
  std::string failure_;
};

}  // namespace kerkis::comm
