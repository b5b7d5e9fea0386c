// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>

#include <kerkis/comm/absence.hpp>
#include <kerkis/comm/announcer.hpp>
#include <kerkis/comm/live.hpp>
#include <kerkis/comm/mpi.hpp>
#include <kerkis/comm/objects.hpp>
#include <kerkis/comm/options.hpp>
#include <kerkis/comm/peers.hpp>
#include <kerkis/comm/pending.hpp>
#include <kerkis/comm/resources.hpp>
#include <kerkis/comm/wait_until.hpp>

namespace kerkis::comm {

/// The one progress engine of a root communicator and all that are made from it: every wait of the library is here, and
/// every operation under way. After a failure of any rank every wait throws it, nothing waits for peers any more, and
/// what is pending is leaked.
class alignas(64) Engine : public Announcer {
 public:
  /// `construction` is that of the root communicator.
  Engine(MPI_Comm user, CommunicatorOptions options, const Construction& construction)
      : Announcer(user, construction), options_(options), name_(construction.name) {
    try {
      peers_.meet(failures_->native(), options_, construction);
      board_ = &peers_.board();
    } catch (const InputError&) {
      failures_->end();  // every rank has thrown it: nothing is under way
      throw;
    } catch (const std::exception& error) {
      failures_->fail(error);
      failures_->end();
      throw;
    }
    if (!options_.check) return;
    at_finalize_.begin([](void* self) { static_cast<Engine*>(self)->report_unfinished(); }, this);
    one_thread_.begin();
    live_.join();
  }
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine() {
    if (options_.check) live_.leave();
    if (mpi_is_alive() && !poisoned()) close();
    failures_->end();
    if (!mpi_is_alive() || poisoned()) leak(std::move(operations_));
  }

  /// As they are in force: what was left open is set, and `check` is the same on all ranks.
  const CommunicatorOptions& options() const { return options_; }
  /// What `operation` takes before it starts. Throws InputError as `inside` does.
  Resources& resources(const char* operation) {
    one_thread_.look(operation);
    return resources_;
  }
  Objects& objects() { return objects_; }
  Board& board() { return *board_; }
  /// That of the root communicator, whose end is that of the engine: before that the ranks meet, so that every message
  /// on it has come.
  void keep(std::shared_ptr<Group> root) { root_ = std::move(root); }

  /// Lets everything pending move on; in checking mode also what has not yet started in other engines, whose failures
  /// are thrown by their own calls. Throws the failure that a rank has announced, if any.
  void poll() {
    const Inside here = inside("poll", {});
    if (options_.check) {
      if (const std::string* const note = one_thread_.note()) failures_->announce(CommError(*note, rank()));
      Live::visit_all();
    }
    failures_->poll();
    for (std::size_t i = 0; moved_by_poll_ > 0 && i < operations_.size(); ++i) {
      Pending& one = operations_[i];
      if (one.moved_by_poll() && advance_this(one) && one.detached) remove(one);
    }
  }

  /// Names and numbers an operation that is called, and writes on the board that this rank has come to it.
  void enter(Group& group, Operation& operation) noexcept {
    operation.axis = group.name.c_str();
    operation.sequence = operation.collective ? ++group.sequence : ++group.hand_offs;
    board_->enter(group.number, operation);
  }

  /// Starts what `begin(MPI_Request*)`, which holds all that it needs by value, returns the MPI code of. A collective
  /// starts later if it has to be checked, or if one before it has more to start. The caller keeps `group` alive until
  /// it removes the operation, or gives it up by `detach` or `abandon`.
  template <class Begin>
  Pending& start(const std::shared_ptr<Group>& group, const Operation& operation, std::chrono::milliseconds deadline,
                 std::unique_ptr<Steps> steps, const Begin& begin) {
    const Inside here = inside("the start of", operation);
    require_deadline(operation.caller(), deadline);
    if (poisoned()) [[unlikely]]
      poll();
    Pending& pending = operations_.begin();
    pending.steps = std::move(steps);
    pending.group = group.get();
    pending.deadline = deadline;
    const bool later = operation.collective && (options_.check || group->several > 0 || !group->waiting.empty());
    try {
      // First of all, so that the data moves while the rest is written down.
      const int code = later ? MPI_SUCCESS : begin(&pending.request);
      write_down(pending, operation, code);
      if (later) [[unlikely]]
        defer(pending, std::unique_ptr<Deferred>(new DeferredCall<Begin>(begin)));
      if (!later && pending.several) [[unlikely]]
        count_several(pending, 1);
    } catch (const std::exception& error) {
      pending.orphan_of = group;
      announce(error);
      throw;
    }
    return pending;
  }

  /// Forgets a complete operation, or one that is given up: what a visit does not look at.
  void remove(Pending& pending) {
    if (!pending.complete) [[unlikely]]
      finish(pending);
    if (pending.detached) [[unlikely]]
      --moved_by_poll_;
    operations_.end(pending);
  }

  /// The operation goes on without its Request; `poll` completes it.
  void detach(Pending& pending, std::shared_ptr<Group> group) {
    const Inside here = inside("detach() of", pending.operation);
    if (pending.complete) return remove(pending);
    pending.orphan_of = std::move(group);
    pending.detached = true;
    ++moved_by_poll_;
  }

  /// The operation is never completed, and its buffers are never freed: poisons the communicator.
  void abandon(Pending& pending, std::shared_ptr<Group> group) noexcept {
    pending.orphan_of = std::move(group);
    abandoned(pending.operation);
  }

  /// Moves an operation on as far as it goes without waiting; says whether it is complete.
  bool advance(Pending& operation) {
    const Inside here = inside("a test of", operation.operation);
    return advance_this(operation);
  }

  /// Tests once. Throws as `poll` does.
  bool test(Pending& operation) {
    if (advance(operation)) return true;
    poll();
    return operation.complete;
  }

  /// Waits until the operation is complete; no wait is blind.
  void wait(Pending& operation) {
    const Inside here = inside("the wait for", operation.operation);
    wait_until(
        options_.wait, [&] { return advance_this(operation); }, [&] { poll(); },
        [&](std::chrono::milliseconds waited, bool first) { check_deadline(operation, waited, first); });
  }

  /// Throws the report, on every rank, if `waited` has passed the deadline (0: the policy's); else prints it if `first`
  /// is true. `also`: what else is awaited.
  void check_deadline(const Pending& operation, std::chrono::milliseconds waited, bool first,
                      std::string_view also = {}) {
    const bool late = expired(operation.deadline, waited);
    if (!late && !first) return;
    const std::string text = report(operation, waited) + std::string(also);
    if (late) give_up(failure(text, operation.operation, rank()));
    print_error(message("rank ", rank(), " still waits: ", text));
  }
  bool expired(std::chrono::milliseconds deadline, std::chrono::milliseconds waited) const {
    return waited >= (deadline.count() == 0 ? options_.wait.deadline : deadline);
  }

  /// What is awaited, for how long, and who has not come.
  std::string report(const Pending& pending, std::chrono::milliseconds waited) const {
    return message(pending.operation.text(), ", waited ", tenths(waited.count()), " s",
                   absence(peers_, pending.group, rank(), pending.operation,
                           pending.steps != nullptr ? pending.steps->sides() : Sides(), options_.check));
  }

  /// Numbers for communicators: all members of a new one take the largest of their next numbers.
  int next_number() const { return next_number_; }
  void take_number(int number) { next_number_ = number + 1; }

 private:
  // Apart from `start`, which is compiled for every operation.
  [[gnu::noinline]] void write_down(Pending& pending, const Operation& operation, int code) {
    pending.operation = operation;
    if (pending.steps != nullptr) {
      pending.several = pending.steps->several();
      if (options_.check) [[unlikely]]
        pending.checksum = pending.steps->checksum();
    }
    enter(*pending.group, pending.operation);
    check_operation(code, pending.operation);
  }

  /// Short, since a wait does little else.
  bool advance_this(Pending& operation) {
    if (operation.deferred || operation.broken) [[unlikely]]
      if (!is_started(operation)) return false;
    if (operation.complete) return true;
    int done = 0;
    const int code = MPI_Test(&operation.request, &done, &operation.status);
    return (code != MPI_SUCCESS || done != 0) && go_on(operation, code);
  }
  [[gnu::noinline]] bool is_started(Pending& operation) {
    if (operation.deferred) start_deferred(*operation.group);
    if (operation.broken) poll();  // throws what it threw before
    return operation.deferred == nullptr;
  }

  /// A test has found an end, or failed with `code`. Returns whether the operation is complete.
  [[gnu::noinline]] bool go_on(Pending& operation, int code) {
    for (;;) {
      operation.broken = true;  // unless all goes well
      if (code != MPI_SUCCESS && operation.operation.from == any_rank && mpi_class(code) == MPI_ERR_TRUNCATE)
        operation.operation.from = operation.status.MPI_SOURCE;
      check_operation(code, operation.operation);
      bool last = true;
      try {
        if (operation.steps) last = operation.steps->next(operation.request, operation.status);
      } catch (const std::exception& error) {
        const auto* const known = dynamic_cast<const CommError*>(&error);
        const CommError of_this = failure(message(operation.operation.text(), ": ", error.what()), operation.operation,
                                          rank(), known != nullptr ? known->mpi_class() : 0);
        announce(of_this);
        if (known != nullptr) throw of_this;
        throw;
      }
      if (last && operation.checksum != 0 && operation.checksum != operation.steps->checksum())
        give_up(written_early(operation.operation, rank()));
      operation.broken = false;
      if (last) finish(operation);
      if (last || operation.request == MPI_REQUEST_NULL) return last;
      int done = 0;
      code = MPI_Test(&operation.request, &done, &operation.status);
      if (code == MPI_SUCCESS && done == 0) return false;
    }
  }

  /// In a call of another engine, perhaps on another thread: starts what can start. The steps of what has started are
  /// left to this engine's own calls, as they are without checking.
  void visit() noexcept {
    if (poisoned() || !one_thread_.visit()) return;
    try {
      for (std::size_t i = 0; i < operations_.size() && moved_by_poll_ > 0; ++i)
        if (operations_[i].deferred) start_deferred(*operations_[i].group);
    } catch (...) {  // announced
    }
    one_thread_.leave();
  }

  void count_several(const Pending& operation, int change) {
    moved_by_poll_ += change;
    if (operation.operation.collective) operation.group->several += change;
  }

  [[gnu::noinline]] void defer(Pending& pending, std::unique_ptr<Deferred> deferred) {
    pending.deferred = std::move(deferred);
    ++moved_by_poll_;
    pending.group->waiting.push_back(&pending);
    if (!options_.check) return;
    pending.deferred->fingerprints.emplace(*pending.group, pending.operation);
    check_operation(pending.deferred->fingerprints->start(*pending.group), pending.operation);
  }

  /// Starts what has been deferred on a communicator as far as it can be, in the order of the calls.
  void start_deferred(Group& group) {
    while (!group.waiting.empty() && group.several == 0) {
      Pending& operation = *group.waiting.front();
      if (auto& fingerprints = operation.deferred->fingerprints) {
        bool done = false;
        std::optional<std::string> mismatch;
        check_operation(fingerprints->compare(group, options_.strict_call_sites, done, mismatch), operation.operation);
        if (mismatch) give_up(failure(*mismatch, operation.operation, rank()));
        if (!done) return;
      }
      const auto deferred = std::move(operation.deferred);
      group.waiting.erase(group.waiting.begin());
      --moved_by_poll_;
      operation.broken = true;  // unless all goes well
      announcing([&] { check_operation(deferred->begin(&operation.request), operation.operation); });
      operation.broken = false;
      if (operation.several) count_several(operation, 1);
    }
  }

  void finish(Pending& operation) {
    if (operation.several) [[unlikely]]
      count_several(operation, -1);
    operation.complete = true;
    operation.steps.reset();
  }

  /// Completes what goes on without a Request, then meets the other ranks before the communicator is freed, so that no
  /// announcement can come after; if one fails instead, that is seen here.
  void close() noexcept {
    try {
      if (const Pending* const one = operations_.first_under_way()) {
        Pending first;
        first.operation = one->operation;
        first.orphan_of = one->orphan_of;
        first.group = first.orphan_of.get();
        const auto all_complete = [&] {
          poll();
          return operations_.first_under_way() == nullptr;
        };
        wait_until(
            options_.wait, all_complete, [] {},
            [&](std::chrono::milliseconds waited, bool report) { check_deadline(first, waited, report); });
      }
      if (failures_->size() == 1) return;
      Pending end;
      end.operation = {.name = "end", .axis = name_.c_str(), .sequence = 1};
      board_->enter(0, end.operation);
      check(MPI_Ibarrier(failures_->native(), &end.request), "MPI_Ibarrier", rank());
      wait(end);
    } catch (const PeerError& error) {
      failures_->fail(error);  // its rank says what it was
    } catch (const std::exception& error) {
      failures_->fail(error);
      report_unheard("a communicator was ended", error);
    }
  }

  /// For the checking mode, at MPI_Finalize. What a failure has stopped is no mistake of the program.
  void report_unfinished() const noexcept {
    if (poisoned() || std::uncaught_exceptions() > 0) return;
    print_error(message("rank ", rank(), ": communicator '", name_, "' has not ended before MPI_Finalize"));
    operations_.print_unfinished(rank());
  }

  // First what every operation touches, in few cache lines.
  CommunicatorOptions options_;
  Board* board_ = nullptr;  // of `peers_`
  int moved_by_poll_ = 0;   // of the pending: several steps, deferred, detached
  Resources resources_;     // outlives what is under way
  Operations operations_;

  std::string name_;
  Peers peers_;
  AtFinalize at_finalize_;
  Objects objects_;
  Live live_{[](void* self) { static_cast<Engine*>(self)->visit(); }, this};
  int next_number_ = 2;  // 0 is the end of the engine, 1 the root communicator
  std::shared_ptr<Group> root_;
};

}  // namespace kerkis::comm
