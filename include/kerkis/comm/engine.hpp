// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <kerkis/comm/wait_policy.hpp>
#include <kerkis/core/error.hpp>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace kerkis::comm {

/// What a request is doing, for messages: "all_reduce #7 of 4096 float over 'data', called at trainer.hpp:88".
struct Operation {
  const char* name = "";
  const char* axis = "";
  const char* type = "";
  std::uint64_t sequence = 0;
  std::size_t count = 0;
  int peer = -1;
  std::source_location where;

  std::string text() const {
    std::string words = message(name, " #", sequence);
    if (*type != '\0') words += message(" of ", count, " ", type);
    if (peer >= 0) words += message(*name == 's' ? " to" : " from", " rank ", peer);
    return words + message(" over '", axis, "', called at ", call_site(where));
  }
};

/// MPI's `code` as an exception; `words` say what was done.
inline CommError mpi_error(int code, const std::string& words, const char* operation, int rank) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0, error_class = MPI_ERR_OTHER;
  MPI_Error_class(code, &error_class);
  MPI_Error_string(code, text, &length);
  return CommError(message(words, ": ", std::string_view(text, static_cast<std::size_t>(length))), rank, operation, error_class);
}

/// Throws CommError unless `code` is MPI_SUCCESS.
inline void check(int code, const char* operation, int rank = -1) {
  if (code != MPI_SUCCESS) throw mpi_error(code, operation, operation, rank);
}

inline bool mpi_is_alive() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

/// Gives an object up for ever: MPI may still write to what it owns.
template <class T>
void leak(T&& object) {
  [[maybe_unused]] auto* lost = new std::decay_t<T>(std::forward<T>(object));
#if defined(__SANITIZE_ADDRESS__)
  __lsan_ignore_object(lost);
#endif
}

/// The communicators on which failures were announced, left behind by their engines: announcements may still be on their way, from ranks
/// that failed at the same time.
inline std::vector<MPI_Comm>& abandoned() {
  static std::vector<MPI_Comm> communicators;
  return communicators;
}

/// Receives what was announced too late, once all ranks have met after the failure: messages that nobody takes make MPI_Finalize complain.
inline void receive_abandoned() {
  for (const MPI_Comm communicator : abandoned()) {
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::steady_clock::now() - start < std::chrono::milliseconds(20)) {
      int found = 0;
      MPI_Status status;
      std::array<char, 2048> text;
      if (MPI_Iprobe(MPI_ANY_SOURCE, 0, communicator, &found, &status) != MPI_SUCCESS) break;
      if (found != 0)
        MPI_Recv(text.data(), static_cast<int>(text.size()), MPI_CHAR, status.MPI_SOURCE, 0, communicator, MPI_STATUS_IGNORE);
      else
        sched_yield();
    }
  }
  abandoned().clear();
}

/// The one progress engine of a root communicator and all that are made from it: every wait of the library is here.
///
/// It keeps a receive posted for the first failure of any rank, on a communicator of its own. `announce` sends it. From then on
/// the communicator is poisoned: every wait throws that message, nothing waits for peers any more, and what is pending is leaked.
class Engine {
 public:
  Engine(MPI_Comm user, WaitPolicy policy) : policy_(policy) {
    check(MPI_Comm_dup(user, &failures_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(failures_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(failures_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(failures_, &size_), "MPI_Comm_size");
    incoming_ = std::make_unique<Text>();
    check(MPI_Irecv(incoming_->data(), static_cast<int>(incoming_->size()), MPI_CHAR, MPI_ANY_SOURCE, 0, failures_, &receive_), "MPI_Irecv");
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() {
    if (!mpi_is_alive()) {
      leak(std::move(incoming_));
      return;
    }
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

  /// Unless `code` is MPI_SUCCESS, poisons the communicator, tells the other ranks and throws CommError: MPI leaves open what still works.
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

  /// Waits until `request` is complete: by C6, no wait is blind. A deadline of zero means the policy's. If a rank announces a failure
  /// meanwhile, the request has a moment to complete all the same, since that rank may have done its part before it failed.
  void wait(MPI_Request& request, const Operation& operation, std::chrono::milliseconds deadline = {}) {
    try {
      wait_until(request, operation, deadline);
    } catch (const PeerError&) {
      int done = 0;
      for (const auto start = Clock::now(); done == 0 && Clock::now() - start < std::chrono::milliseconds(50); sched_yield())
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
        const std::string text = message(operation.text(), ", waited ", static_cast<double>(waited.count()) * 1e-3,
                                         " s on rank ", rank_, "; which ranks have not come is unknown");
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
