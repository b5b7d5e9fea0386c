// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <array>
#include <memory>
#include <optional>
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
    incoming_ = std::make_unique<Announcement>();
    check(MPI_Irecv(incoming_->data(), static_cast<int>(incoming_->size()), MPI_CHAR, MPI_ANY_SOURCE, 0, native_,
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
    if (failure_ || done == 0)
      left_behind().communicators.push_back(native_);
    else
      MPI_Comm_free(&native_);
  }

  MPI_Comm native() const { return native_; }
  int rank() const { return rank_; }
  int size() const { return size_; }
  bool failed() const { return failure_.has_value(); }

  /// Lets MPI move pending communication on. Throws the failure that a rank has announced, if any.
  void poll() {
    if (!failure_) {
      int done = 0;
      MPI_Status status;
      check(MPI_Test(&receive_, &done, &status), "MPI_Test", rank_);
      if (done == 0) return;
      int length = 0;
      MPI_Get_count(&status, MPI_CHAR, &length);
      failure_ = Failure{status.MPI_SOURCE, std::string(incoming_->data(), static_cast<std::size_t>(length))};
    }
    if (failure_->rank == rank_) throw CommError(failure_->text, rank_);
    throw PeerError(message("rank ", failure_->rank, ": ", failure_->text), failure_->rank);
  }

  /// Tells every other rank that this one gives up. Only the first call has an effect.
  void announce(std::string_view text) noexcept {
    if (failure_ || !mpi_is_alive()) return;
    fail(text);
    auto outgoing = std::make_unique<std::string>(failure_->text);
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      MPI_Request request = MPI_REQUEST_NULL;  // never completed: the peer may be gone
      MPI_Isend(outgoing->data(), static_cast<int>(outgoing->size()), MPI_CHAR, peer, 0, native_, &request);
    }
    leak(std::move(outgoing));
  }

  /// As `announce`, but tells nobody.
  void fail(std::string_view text) {
    if (!failure_) failure_ = Failure{rank_, std::string(text.substr(0, std::tuple_size_v<Announcement>))};
  }

 private:
  struct Failure {
    int rank;
    std::string text;
  };

  MPI_Comm native_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::unique_ptr<Announcement> incoming_;
  MPI_Request receive_ = MPI_REQUEST_NULL;
  std::optional<Failure> failure_;
};

}  // namespace kerkis::comm
