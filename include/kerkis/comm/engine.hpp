// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>
#include <sched.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <kerkis/comm/mpi.hpp>

namespace kerkis::comm {

/// The one progress engine of a root communicator and all that are made from it: every wait of the library is here.
///
/// It keeps a receive posted for the first failure of any rank, on a communicator of its own. `announce` sends it. From
/// then on the communicator is poisoned: every wait throws that message, nothing waits for peers any more, and what is
/// pending is leaked.
class Engine {
 public:
  Engine(MPI_Comm user, WaitPolicy policy) : policy_(policy) {
    failures_ = duplicate(user, policy_);
    check(MPI_Comm_set_errhandler(failures_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(failures_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(failures_, &size_), "MPI_Comm_size");
    incoming_ = std::make_unique<Text>();
    check(MPI_Irecv(incoming_->data(), static_cast<int>(incoming_->size()), MPI_CHAR, MPI_ANY_SOURCE, 0, failures_,
                    &receive_),
          "MPI_Irecv");
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() {
    if (!mpi_is_alive()) {
      leak(std::move(incoming_));
      return;
    }
    if (!failure_ && size_ > 1) close();
    if (receive_ != MPI_REQUEST_NULL) {
      MPI_Cancel(&receive_);
      MPI_Wait(&receive_, MPI_STATUS_IGNORE);  // of a cancelled receive: local
    }
    if (failure_) {
      abandoned().push_back(failures_);
      return;
    }
    for (auto& [key, operation] : operations_) MPI_Op_free(&operation);
    MPI_Comm_free(&failures_);
  }

  int rank() const { return rank_; }
  const WaitPolicy& policy() const { return policy_; }
  bool poisoned() const { return failure_.has_value(); }

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

  /// Tells every other rank that this one gives up, and poisons the communicator. Only the first call has an effect.
  void announce(std::string_view text) noexcept {
    if (failure_ || !mpi_is_alive()) return;
    failure_ = Failure{rank_, std::string(text.substr(0, std::tuple_size_v<Text>))};
    auto outgoing = std::make_unique<std::string>(failure_->text);
    for (int peer = 0; peer < size_; ++peer) {
      if (peer == rank_) continue;
      MPI_Request request = MPI_REQUEST_NULL;  // never completed: the peer may be gone
      MPI_Isend(outgoing->data(), static_cast<int>(outgoing->size()), MPI_CHAR, peer, 0, failures_, &request);
    }
    leak(std::move(outgoing));
  }

  /// Unless `code` is MPI_SUCCESS, poisons the communicator, tells the other ranks and throws CommError: MPI leaves
  /// open what still works.
  void check_operation(int code, const Operation& operation) {
    if (code == MPI_SUCCESS) return;
    const CommError error = mpi_error(code, operation.text(), operation.name, rank_);
    announce(error.what());
    throw error;
  }

  /// Tests once. Throws as `poll` does.
  bool test(MPI_Request& request, const Operation& operation) {
    int done = 0;
    check_operation(MPI_Test(&request, &done, MPI_STATUS_IGNORE), operation);
    if (done == 0) poll();
    return done != 0;
  }

  /// Waits until `request` is complete; no wait is blind. A deadline of zero means the policy's. If a rank
  /// announces a failure meanwhile, the request has a moment to complete all the same, since that rank may have done
  /// its part before it failed.
  void wait(MPI_Request& request, const Operation& operation, std::chrono::milliseconds deadline = {}) {
    try {
      wait_until(request, operation, deadline);
    } catch (const PeerError&) {
      int done = 0;
      for (const auto start = Clock::now(); done == 0 && Clock::now() - start < std::chrono::milliseconds(50);
           sched_yield())
        check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), operation.name, rank_);
      if (done == 0) throw;
    }
  }

  /// An MPI operation made once for `function` and freed with the engine.
  MPI_Op operation(MPI_User_function* function) {
    const auto [place, made] = operations_.try_emplace(function, MPI_OP_NULL);
    if (made) check(MPI_Op_create(function, 1, &place->second), "MPI_Op_create", rank_);
    return place->second;
  }

 private:
  /// Meets the other ranks before the communicator is freed, so that no announcement can come after; if one fails
  /// instead, that is seen here.
  void close() noexcept {
    MPI_Request barrier = MPI_REQUEST_NULL;
    if (MPI_Ibarrier(failures_, &barrier) != MPI_SUCCESS) return;
    try {
      wait(barrier, {"end", "all ranks of a communicator", "", 0, 0, -1, std::source_location::current()});
    } catch (const std::exception& error) {
      if (!failure_) failure_ = Failure{rank_, error.what()};
    }
  }

  using Clock = std::chrono::steady_clock;
  using Text = std::array<char, 2048>;
  struct Failure {
    int rank;
    std::string text;
  };

  void wait_until(MPI_Request& request, const Operation& operation, std::chrono::milliseconds deadline) {
    for (int spin = 0; spin < policy_.spins; ++spin)
      if (test(request, operation)) return;
    if (deadline.count() == 0) deadline = policy_.deadline;
    const auto start = Clock::now();
    bool reported = false;
    while (!test(request, operation)) {
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
      if (waited >= deadline) {
        const std::string text =
            message(operation.text(), ", waited ", static_cast<double>(waited.count()) / 1000, " s on rank ", rank_,
                    operation.peer >= 0 ? "; the peer has not come" : "; which ranks have not come is unknown");
        announce(text);
        throw CommError(text, rank_, operation.name);
      }
      if (!reported && waited >= policy_.first_report) {
        reported = true;
        std::fprintf(stderr, "kerkis: rank %d still waits for %s, %lld s so far\n", rank_, operation.text().c_str(),
                     static_cast<long long>(waited.count() / 1000));
      }
      if (waited < policy_.sleep_after)
        sched_yield();
      else
        std::this_thread::sleep_for(policy_.sleep);
    }
  }

  WaitPolicy policy_;
  MPI_Comm failures_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
  std::unique_ptr<Text> incoming_;
  MPI_Request receive_ = MPI_REQUEST_NULL;
  std::optional<Failure> failure_;
  std::map<MPI_User_function*, MPI_Op> operations_;
};

}  // namespace kerkis::comm
