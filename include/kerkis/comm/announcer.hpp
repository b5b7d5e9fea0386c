// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include <kerkis/comm/failure_channel.hpp>
#include <kerkis/comm/mpi.hpp>
#include <kerkis/comm/one_thread.hpp>

namespace kerkis::comm {

/// Of an engine, what does not depend on its operations: it tells the other ranks of failures here, and in checking
/// mode sees to it that one thread at a time is in its calls.
class Announcer {
 public:
  Announcer(MPI_Comm user, const Construction& construction)
      : failures_(new FailureChannel(user, construction)), one_thread_(construction.name, rank()) {}
  Announcer(const Announcer&) = delete;
  Announcer& operator=(const Announcer&) = delete;

  int rank() const { return failures_->rank(); }
  const std::shared_ptr<FailureChannel>& failures() const { return failures_; }
  bool poisoned() const { return failures_->failed(); }

  /// This thread is in a call, until the end of what is returned. In checking mode throws InputError, before anything
  /// is changed, if another thread is in one; else does nothing.
  [[nodiscard]] Inside inside(const char* call, const Operation& operation) {
    return {one_thread_, call, operation.name, operation.where};
  }

  /// Tells every other rank that this one gives up, and poisons the communicator. Only the first call has an effect.
  /// In checking mode, if another thread is in a call, that one does it when it polls.
  void announce(const std::exception& error) noexcept {
    const bool checks = one_thread_.checks();
    if (checks && !one_thread_.enter("announce", "", {})) return one_thread_.leave_note(error.what());
    failures_->announce(error);
    if (checks) one_thread_.leave();
  }
  void announce(std::string_view text) noexcept { announce(CommError(std::string(text), rank())); }

  /// Calls `f` and announces what it throws; if that is nothing, what exceptions within it have abandoned.
  template <class F>
  decltype(auto) guard(F&& f) {
    struct Guarding {
      explicit Guarding(Announcer& announcer) : of(announcer) { ++of.guards_; }
      ~Guarding() {
        if (--of.guards_ == 0 && !of.abandoned_.empty()) of.announce(of.abandoned_);
      }
      Announcer& of;
    };
    const Guarding here(*this);
    return announcing(std::forward<F>(f));
  }
  /// Calls `f` and announces what it throws: for a visit too, which must not touch what `guard` counts.
  template <class F>
  decltype(auto) announcing(F&& f) {
    try {
      return std::forward<F>(f)();
    } catch (const std::exception& error) {
      announce(error);
      throw;
    } catch (...) {
      announce("an exception that is no std::exception");
      throw;
    }
  }

  /// Unless `code` is MPI_SUCCESS, poisons the communicator, tells the other ranks and throws CommError: MPI leaves
  /// open what still works.
  void check_operation(int code, const Operation& operation) {
    if (code != MPI_SUCCESS) [[unlikely]]
      give_up(failure(mpi_text(code, operation.text()), operation, rank(), mpi_class(code)));
  }

  /// An exception has abandoned it. In `guard` that exception itself is announced instead, if it gets there.
  void abandoned(const Operation& operation) noexcept {
    const std::string text = message("an exception abandoned ", operation.text(), " on rank ", rank());
    if (guards_ == 0) return announce(text);
    if (abandoned_.empty()) abandoned_ = text;
  }

 protected:
  ~Announcer() = default;
  [[noreturn, gnu::cold]] void give_up(const CommError& error) {
    announce(error);
    throw error;
  }

  std::shared_ptr<FailureChannel> failures_;
  OneThread one_thread_;  // for the checking mode

 private:
  int guards_ = 0;         // calls of `guard` under way
  std::string abandoned_;  // within them
};

}  // namespace kerkis::comm
