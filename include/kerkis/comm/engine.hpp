// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>
#include <sched.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <iterator>
#include <map>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <kerkis/comm/failure_channel.hpp>
#include <kerkis/comm/mpi.hpp>
#include <kerkis/comm/options.hpp>
#include <kerkis/comm/pending.hpp>

namespace kerkis::comm {

/// The one progress engine of a root communicator and all that are made from it: every wait of the library is here, and
/// every operation under way. After a failure of any rank every wait throws it, nothing waits for peers any more, and
/// what is pending is leaked.
class Engine {
 public:
  Engine(MPI_Comm user, CommunicatorOptions options)
      : options_(options), failures_(std::make_shared<FailureChannel>(user, options.wait)) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() {
    if (mpi_is_alive() && !poisoned()) close();
    failures_->end();
    if (!mpi_is_alive() || poisoned()) {
      leak(std::move(pending_));
      return;
    }
    for (auto& [key, operation] : operations_) MPI_Op_free(&operation);
    for (auto& [size, type] : types_) MPI_Type_free(&type);
  }

  int rank() const { return failures_->rank(); }
  const CommunicatorOptions& options() const { return options_; }
  const std::shared_ptr<FailureChannel>& failures() const { return failures_; }
  bool poisoned() const { return failures_->failed(); }

  /// Lets everything pending move on. Throws the failure that a rank has announced, if any.
  void poll() {
    failures_->poll();
    if (several_ == 0) return;
    for (auto place = pending_.begin(); place != pending_.end();) {
      const auto current = place++;
      if (!current->complete && (current->detached || (current->steps && current->steps->several())) &&
          advance(*current) && current->detached)
        remove(current);
    }
  }

  /// Tells every other rank that this one gives up, and poisons the communicator. Only the first call has an effect.
  void announce(std::string_view text) noexcept { failures_->announce(text); }

  /// Unless `code` is MPI_SUCCESS, poisons the communicator, tells the other ranks and throws CommError: MPI leaves
  /// open what still works.
  void check_operation(int code, const Operation& operation) {
    if (code == MPI_SUCCESS) return;
    const CommError error = mpi_error(code, operation.text(), operation.name, rank());
    announce(error.what());
    throw error;
  }

  /// Takes a started operation in.
  PendingList::iterator add(Pending&& operation) {
    if (free_.empty())
      pending_.push_back(std::move(operation));
    else {
      free_.front() = std::move(operation);
      pending_.splice(pending_.end(), free_, free_.begin());
    }
    const auto place = std::prev(pending_.end());
    if (place->steps && place->steps->several()) ++several_;
    return place;
  }

  /// Forgets a complete operation, or one that is given up.
  void remove(PendingList::iterator place) {
    finish(*place);
    if (place->detached) --several_;
    *place = Pending();
    free_.splice(free_.begin(), pending_, place);
  }

  /// The operation goes on without its Request; `poll` completes it.
  void detach(PendingList::iterator place) {
    if (place->complete) return remove(place);
    place->detached = true;
    ++several_;
  }

  /// Tests once. Throws as `poll` does.
  bool test(Pending& operation) {
    if (advance(operation)) return true;
    poll();
    return operation.complete;
  }

  /// Waits until the operation is complete; no wait is blind. If a rank announces a failure meanwhile, the operation
  /// has a moment to complete all the same, since that rank may have done its part before it failed.
  void wait(Pending& operation) {
    try {
      wait_until([&] { return test(operation); }, operation.operation, operation.deadline);
    } catch (const PeerError&) {
      for (const auto start = Clock::now(); Clock::now() - start < std::chrono::milliseconds(50); sched_yield())
        if (advance(operation)) return;
      throw;
    }
  }

  /// Waits for an MPI request of the library's own.
  void wait(MPI_Request& request, const Operation& operation) {
    const auto test_once = [&] {
      int done = 0;
      check_operation(MPI_Test(&request, &done, MPI_STATUS_IGNORE), operation);
      if (done == 0) poll();
      return done != 0;
    };
    wait_until(test_once, operation, {});
  }

  /// Throws the report, on every rank, if `waited` has passed the deadline (0: the policy's).
  void check_deadline(const Operation& operation, std::chrono::milliseconds deadline,
                      std::chrono::milliseconds waited) {
    if (waited < (deadline.count() == 0 ? options_.wait.deadline : deadline)) return;
    const std::string text = report(operation, waited);
    announce(text);
    throw CommError(text, rank(), operation.name);
  }

  /// An MPI operation made once for `function` and freed with the engine.
  MPI_Op operation(MPI_User_function* function, bool commutes = true) {
    const auto [place, made] = operations_.try_emplace(function, MPI_OP_NULL);
    if (made) check(MPI_Op_create(function, commutes ? 1 : 0, &place->second), "MPI_Op_create", rank());
    return place->second;
  }

  /// An MPI type of so many bytes, made once and freed with the engine.
  MPI_Datatype bytes(int size) {
    const auto [place, made] = types_.try_emplace(size, MPI_DATATYPE_NULL);
    if (made) {
      check(MPI_Type_contiguous(size, MPI_BYTE, &place->second), "MPI_Type_contiguous", rank());
      check(MPI_Type_commit(&place->second), "MPI_Type_commit", rank());
    }
    return place->second;
  }

 private:
  using Clock = std::chrono::steady_clock;

  /// Moves an operation on as far as it goes without waiting; says whether it is complete.
  bool advance(Pending& operation) {
    while (!operation.complete) {
      int done = 0;
      check_operation(MPI_Test(&operation.request, &done, MPI_STATUS_IGNORE), operation.operation);
      if (done == 0) return false;
      try {
        if (operation.steps == nullptr || operation.steps->next(operation.request)) finish(operation);
      } catch (const std::exception& error) {
        announce(message(operation.operation.text(), ": ", error.what()));
        throw;
      }
    }
    return true;
  }

  void finish(Pending& operation) {
    if (operation.steps && operation.steps->several()) --several_;
    operation.complete = true;
    operation.steps.reset();
  }

  /// Completes what goes on without a Request, then meets the other ranks before the communicator is freed, so that no
  /// announcement can come after; if one fails instead, that is seen here.
  void close() noexcept {
    try {
      for (Pending& operation : pending_) wait(operation);
      pending_.clear();
      if (failures_->size() == 1) return;
      MPI_Request barrier = MPI_REQUEST_NULL;
      check(MPI_Ibarrier(failures_->native(), &barrier), "MPI_Ibarrier", rank());
      wait(barrier, {.name = "end", .where = std::source_location::current(), .axis = "all ranks of a communicator"});
    } catch (const std::exception& error) {
      failures_->fail(error.what());
    }
  }

  template <class Test>
  void wait_until(Test&& complete, const Operation& operation, std::chrono::milliseconds deadline) {
    const WaitPolicy& policy = options_.wait;
    for (int spin = 0; spin < policy.spins; ++spin)
      if (complete()) return;
    const auto start = Clock::now();
    bool reported = false;
    while (!complete()) {
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
      check_deadline(operation, deadline, waited);
      if (!reported && waited >= policy.first_report) {
        reported = true;
        std::fprintf(stderr, "kerkis: still waiting: %s\n", report(operation, waited).c_str());
      }
      if (waited < policy.sleep_after)
        sched_yield();
      else
        std::this_thread::sleep_for(policy.sleep);
    }
  }

  /// What is awaited, for how long, and who has not come.
  std::string report(const Operation& operation, std::chrono::milliseconds waited) const {
    return message(operation.text(), ", waited ", static_cast<double>(waited.count()) / 1000, " s on rank ", rank(),
                   operation.peer >= 0 ? "; the peer has not come" : "; which ranks have not come is unknown");
  }

  CommunicatorOptions options_;
  std::shared_ptr<FailureChannel> failures_;
  PendingList pending_, free_;
  int several_ = 0;  // of the pending: those that `poll` moves on
  std::map<MPI_User_function*, MPI_Op> operations_;
  std::map<int, MPI_Datatype> types_;
};

}  // namespace kerkis::comm
