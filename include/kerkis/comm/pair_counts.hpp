// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <kerkis/comm/mpi.hpp>

namespace kerkis::comm {

/// What a rank has found wrong: it receives another number of elements than `sender` sends.
struct WrongPair {
  std::int64_t sender = -1;  ///< -1: nothing is wrong
  std::uint64_t sent = 0, received = 0;
};

/// For the checking mode of an uneven all_to_all: compares what every rank sends to every other with what that one
/// receives from it. MPI may lose elements silently where they differ. Two collectives, one after the other.
class PairCounts {
 public:
  PairCounts() = default;  ///< of nothing
  explicit PairCounts(const UnevenCounts& counts)
      : sends_(counts.sends.begin(), counts.sends.end()), receives_(counts.receives.begin(), counts.receives.end()),
        sent_to_me_(sends_.size()), found_(sends_.size()) {}

  bool any() const { return !sends_.empty(); }

  /// Starts or tests; `done` when `found` has its answer.
  int advance(MPI_Comm native, int& done) {
    const int code = step_ == 0 ? MPI_SUCCESS : MPI_Test(&request_, &done, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || (step_ != 0 && done == 0) || step_ == 2) return code;
    done = 0;
    if (step_++ == 0)
      return MPI_Ialltoall(sends_.data(), 1, MPI_UINT64_T, sent_to_me_.data(), 1, MPI_UINT64_T, native, &request_);
    compare();
    return MPI_Iallgather(&mine_, sizeof mine_, MPI_BYTE, found_.data(), sizeof mine_, MPI_BYTE, native, &request_);
  }

  /// By receiver: the same on all ranks.
  const std::vector<WrongPair>& found() const { return found_; }

 private:
  void compare() {
    for (std::size_t rank = 0; rank < receives_.size(); ++rank)
      if (receives_[rank] != sent_to_me_[rank])
        mine_ = {static_cast<std::int64_t>(rank), sent_to_me_[rank], receives_[rank]};
  }

  std::vector<std::uint64_t> sends_, receives_, sent_to_me_;
  WrongPair mine_;
  std::vector<WrongPair> found_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  int step_ = 0;  // collectives started
};

}  // namespace kerkis::comm
