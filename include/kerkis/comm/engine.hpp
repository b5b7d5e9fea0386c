// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>
#include <sched.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kerkis/comm/absence.hpp>
#include <kerkis/comm/failure_channel.hpp>
#include <kerkis/comm/mpi.hpp>
#include <kerkis/comm/objects.hpp>
#include <kerkis/comm/options.hpp>
#include <kerkis/comm/peers.hpp>
#include <kerkis/comm/pending.hpp>
#include <kerkis/comm/resources.hpp>

namespace kerkis::comm {

/// How long an operation may still become complete after another rank has failed.
inline constexpr std::chrono::milliseconds grace{50};

/// The one progress engine of a root communicator and all that are made from it: every wait of the library is here, and
/// every operation under way. After a failure of any rank every wait throws it, nothing waits for peers any more, and
/// what is pending is leaked.
class Engine {
 public:
  /// `name` is that of the root communicator.
  Engine(MPI_Comm user, CommunicatorOptions options, std::string name)
      : options_(options), name_(std::move(name)), failures_(std::make_shared<FailureChannel>(user, options.wait)) {
    try {
      peers_ = std::make_unique<Peers>(failures_->native(), options_);
    } catch (const InputError&) {
      failures_->end();  // every rank has thrown it: nothing is under way
      throw;
    } catch (const std::exception& error) {
      failures_->fail(error.what());
      failures_->end();
      throw;
    }
    if (options_.check) at_finalize_.emplace([](void* self) { static_cast<Engine*>(self)->report_unfinished(); }, this);
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() {
    if (mpi_is_alive() && !poisoned()) close();
    failures_->end();
    if (!mpi_is_alive() || poisoned())
      leak(std::move(operations_));
    else
      for (const Pending* const one : operations_) delete one;
  }

  int rank() const { return failures_->rank(); }
  /// As they are in force: what was left open is set, and `check` is the same on all ranks.
  const CommunicatorOptions& options() const { return options_; }
  const std::shared_ptr<FailureChannel>& failures() const { return failures_; }
  bool poisoned() const { return failures_->failed(); }
  Resources& resources() { return resources_; }
  Objects& objects() { return objects_; }

  /// Lets everything pending move on. Throws the failure that a rank has announced, if any.
  void poll() {
    failures_->poll();
    if (moved_by_poll_ == 0) return;
    for (std::size_t i = 0; i < operations_.size(); ++i) {
      Pending& one = *operations_[i];
      if (one.under_way && !one.complete && (one.detached || one.deferred || one.several) && advance(one) &&
          one.detached)
        remove(one);
    }
  }

  /// Tells every other rank that this one gives up, and poisons the communicator. Only the first call has an effect.
  void announce(std::string_view text) noexcept { failures_->announce(text); }

  /// Calls `f` and announces what it throws.
  template <class F>
  decltype(auto) guard(F&& f) {
    try {
      return std::forward<F>(f)();
    } catch (const std::exception& error) {
      announce(error.what());
      throw;
    } catch (...) {
      announce("an exception that is no std::exception");
      throw;
    }
  }

  /// Unless `code` is MPI_SUCCESS, poisons the communicator, tells the other ranks and throws CommError: MPI leaves
  /// open what still works.
  void check_operation(int code, const Operation& operation) {
    if (code == MPI_SUCCESS) return;
    const CommError error = mpi_error(code, operation.text(), operation.name, rank());
    announce(error.what());
    throw error;
  }

  /// Names and numbers an operation that is called, and writes on the board that this rank has come to it.
  void enter(Group& group, Operation& operation) noexcept {
    operation.axis = group.name.c_str();
    operation.sequence = operation.collective ? ++group.sequence : ++group.hand_offs;
    peers_->enter(group.number, operation);
  }

  /// Starts what `begin(MPI_Request*)`, which holds all that it needs by value, returns the MPI code of. A collective
  /// starts later if it has to be checked, or if one before it has more to start. The caller keeps `group` alive until
  /// it removes the operation, or gives it up by `detach` or `abandon`.
  template <class Begin>
  Pending& start(const std::shared_ptr<Group>& group, const Operation& operation, std::chrono::milliseconds deadline,
                 std::unique_ptr<Steps> steps, const Begin& begin) {
    if (poisoned()) poll();
    Pending& pending = new_operation();
    pending.operation = operation;
    pending.deadline = deadline;
    pending.group = group.get();
    if (steps != nullptr) {
      pending.several = steps->several();
      if (options_.check) pending.checksum = steps->checksum();
      pending.steps = std::move(steps);
    }
    enter(*group, pending.operation);
    try {
      if (operation.collective && (options_.check || group->several > 0 || !group->waiting.empty())) {
        defer(pending, std::unique_ptr<Deferred>(new DeferredCall<Begin>(begin)));
      } else {
        check_operation(begin(&pending.request), pending.operation);
        if (pending.several) count_several(pending, 1);
      }
    } catch (const std::exception& error) {
      pending.orphan_of = group;
      announce(error.what());
      throw;
    }
    return pending;
  }

  /// Forgets a complete operation, or one that is given up.
  void remove(Pending& pending) {
    if (!pending.complete) finish(pending);
    if (pending.detached) --moved_by_poll_;
    pending.request = MPI_REQUEST_NULL;
    pending.orphan_of.reset();
    pending.checksum = 0;
    pending.under_way = pending.complete = pending.broken = pending.detached = pending.several = false;
    free_.push_back(&pending);
  }

  /// The operation goes on without its Request; `poll` completes it.
  void detach(Pending& pending, std::shared_ptr<Group> group) {
    if (pending.complete) return remove(pending);
    pending.orphan_of = std::move(group);
    pending.detached = true;
    ++moved_by_poll_;
  }

  /// The operation is never completed, and its buffers are never freed: poisons the communicator.
  void abandon(Pending& pending, std::shared_ptr<Group> group) noexcept {
    pending.orphan_of = std::move(group);
    announce(message("an exception abandoned ", pending.operation.text(), " on rank ", rank()));
  }

  /// Moves an operation on as far as it goes without waiting; says whether it is complete.
  bool advance(Pending& operation) {
    if (operation.deferred) {
      start_deferred(*operation.group);
      if (operation.deferred) return false;
    }
    while (!operation.complete) {
      if (operation.broken) poll();  // throws what it threw before
      int done = 0;
      const int code = MPI_Test(&operation.request, &done, &operation.status);
      if (code == MPI_SUCCESS && done == 0) return false;
      operation.broken = true;  // unless all goes well
      check_operation(code, operation.operation);
      if (operation.checksum != 0 && operation.checksum != operation.steps->checksum())
        guard([&] { throw written_early(operation.operation, rank()); });
      try {
        if (operation.steps) operation.steps->came(operation.status);
        if (operation.steps == nullptr || operation.steps->next(operation.request)) finish(operation);
      } catch (const std::exception& error) {
        const std::string text = message(operation.operation.text(), ": ", error.what());
        announce(text);
        if (const auto* of_mpi = dynamic_cast<const CommError*>(&error))
          throw CommError(text, rank(), operation.operation.name, of_mpi->mpi_class());
        throw;
      }
      operation.broken = false;
      if (!operation.complete && operation.request == MPI_REQUEST_NULL) return false;
    }
    return true;
  }

  /// Tests once. Throws as `poll` does.
  bool test(Pending& operation) {
    if (advance(operation)) return true;
    poll();
    return operation.complete;
  }

  /// Waits until the operation is complete; no wait is blind.
  void wait(Pending& operation) {
    wait_until([&] { return advance(operation); }, [&] { poll(); },
               [&](std::chrono::milliseconds waited, bool first) { check_deadline(operation, waited, first); });
  }

  /// Waits until `complete()`, which tests; `poll_others()` lets other things move on, and throws what a rank has
  /// announced. Then there is a moment to become complete all the same, since that rank may have done its part before
  /// it failed. Once it no longer only spins, it calls `late(waited, first)` between tests, which throws when a
  /// deadline has passed, and reports when `first` is true: once.
  template <class Complete, class Poll, class Late>
  void wait_until(Complete&& complete, Poll&& poll_others, Late&& late) {
    const WaitPolicy& policy = options_.wait;
    try {
      // While it spins it looks for other things now and then only: they cost as much as the test.
      for (int spin = 0; spin < policy.spins; ++spin) {
        if (complete()) return;
        if (spin % 32 == 31) poll_others();
      }
      bool reported = false;
      for (const auto start = Clock::now(); !complete();) {
        poll_others();
        const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
        late(waited, !reported && waited >= policy.first_report);
        reported = waited >= policy.first_report;
        if (waited < policy.sleep_after)
          sched_yield();
        else
          sleep_for(policy.sleep);
      }
    } catch (const PeerError&) {
      for (const auto start = Clock::now(); Clock::now() - start < grace; sched_yield())
        if (complete()) return;
      throw;
    }
  }

  /// Throws the report, on every rank, if `waited` has passed the deadline (0: the policy's); else prints it if `first`
  /// is true. `also`: what else is awaited.
  void check_deadline(const Pending& operation, std::chrono::milliseconds waited, bool first,
                      std::string_view also = {}) {
    const bool late = expired(operation.deadline, waited);
    if (!late && !first) return;
    const std::string text = report(operation, waited) + std::string(also);
    if (late) give_up(text, operation.operation);
    print_error(message("rank ", rank(), " still waits: ", text));
  }
  bool expired(std::chrono::milliseconds deadline, std::chrono::milliseconds waited) const {
    return waited >= (deadline.count() == 0 ? options_.wait.deadline : deadline);
  }

  /// What is awaited, for how long, and who has not come.
  std::string report(const Pending& pending, std::chrono::milliseconds waited) const {
    const Operation& operation = pending.operation;
    const Group* const group = pending.group;
    std::vector<int> ranks;
    if (operation.peer >= 0 && group != nullptr) {
      ranks = {group->root_ranks[static_cast<std::size_t>(operation.peer)]};
    } else if (group != nullptr) {
      ranks = group->root_ranks;
    } else {
      for (int other = 0; other < failures_->size(); ++other) ranks.push_back(other);
    }
    return message(operation.text(), ", waited ", tenths(waited.count()), " s",
                   absence(*peers_, std::move(ranks), rank(), group != nullptr ? group->number : 0, operation));
  }

  /// Numbers for communicators: all members of a new one take the largest of their next numbers.
  int next_number() const { return next_number_; }
  void take_number(int number) { next_number_ = number + 1; }

 private:
  using Clock = std::chrono::steady_clock;

  [[noreturn]] void give_up(const std::string& text, const Operation& operation) {
    announce(text);
    throw CommError(text, rank(), operation.name);
  }

  void count_several(const Pending& operation, int change) {
    moved_by_poll_ += change;
    if (operation.operation.collective) operation.group->several += change;
  }

  Pending& new_operation() {
    if (free_.empty()) {
      free_.reserve(operations_.size() + 1);
      free_.push_back(operations_.emplace_back(new Pending));
    }
    Pending& pending = *free_.back();
    free_.pop_back();
    pending.under_way = true;
    return pending;
  }
  const Pending* first_under_way() const {
    for (const auto& one : operations_)
      if (one->under_way) return one;
    return nullptr;
  }

  void defer(Pending& pending, std::unique_ptr<Deferred> deferred) {
    pending.deferred = std::move(deferred);
    ++moved_by_poll_;
    pending.group->waiting.push_back(&pending);
    if (!options_.check) return;
    pending.deferred->fingerprints = std::make_unique<Fingerprints>(*pending.group, pending.operation);
    check_operation(pending.deferred->fingerprints->start(*pending.group), pending.operation);
  }

  /// Starts what has been deferred on a communicator as far as it can be, in the order of the calls.
  void start_deferred(Group& group) {
    while (!group.waiting.empty() && group.several == 0) {
      Pending& operation = *group.waiting.front();
      if (auto* const fingerprints = operation.deferred->fingerprints.get()) {
        int done = 0;
        check_operation(fingerprints->test(done), operation.operation);
        if (done == 0) return;
        if (const auto text = fingerprints->mismatch(group, options_.strict_call_sites))
          give_up(*text, operation.operation);
        check_operation(fingerprints->test_counts(group, done), operation.operation);
        if (done == 0) return;
        if (const auto text = fingerprints->mismatched_counts(group)) give_up(*text, operation.operation);
      }
      const auto deferred = std::move(operation.deferred);
      group.waiting.erase(group.waiting.begin());
      --moved_by_poll_;
      guard([&] { check_operation(deferred->begin(&operation.request), operation.operation); });
      if (operation.several) count_several(operation, 1);
    }
  }

  void finish(Pending& operation) {
    if (operation.several) count_several(operation, -1);
    operation.complete = true;
    operation.steps.reset();
  }

  /// Completes what goes on without a Request, then meets the other ranks before the communicator is freed, so that no
  /// announcement can come after; if one fails instead, that is seen here.
  void close() noexcept {
    try {
      if (const Pending* const one = first_under_way()) {
        Pending first;
        first.operation = one->operation;
        first.orphan_of = one->orphan_of;
        first.group = first.orphan_of.get();
        const auto all_complete = [&] {
          poll();
          return first_under_way() == nullptr;
        };
        wait_until(
            all_complete, [] {},
            [&](std::chrono::milliseconds waited, bool report) { check_deadline(first, waited, report); });
      }
      if (failures_->size() == 1) return;
      Pending end;
      end.operation = {.name = "end", .where = std::source_location::current(), .axis = name_.c_str(), .sequence = 1};
      peers_->enter(0, end.operation);
      check(MPI_Ibarrier(failures_->native(), &end.request), "MPI_Ibarrier", rank());
      wait(end);
    } catch (const PeerError& error) {
      failures_->fail(error.what());  // its rank says what it was
    } catch (const std::exception& error) {
      failures_->fail(error.what());
      report_unheard("a communicator was ended", error);
    }
  }

  /// For the checking mode, at MPI_Finalize. What a failure has stopped is no mistake of the program.
  void report_unfinished() const noexcept {
    if (poisoned() || std::uncaught_exceptions() > 0) return;
    print_error(message("rank ", rank(), ": communicator '", name_, "' has not ended before MPI_Finalize"));
    for (const auto& one : operations_)
      if (one->under_way) print_error(message("rank ", rank(), ": never finished: ", one->operation.text()));
  }

  CommunicatorOptions options_;
  std::string name_;
  std::shared_ptr<FailureChannel> failures_;
  std::unique_ptr<Peers> peers_;
  std::optional<AtFinalize> at_finalize_;
  Objects objects_;
  Resources resources_;               // outlives what is under way
  std::vector<Pending*> operations_;  // owned
  std::vector<Pending*> free_;        // of these
  int moved_by_poll_ = 0;             // of the pending: several steps, deferred, detached
  int next_number_ = 2;               // 0 is the end of the engine, 1 the root communicator
};

}  // namespace kerkis::comm
