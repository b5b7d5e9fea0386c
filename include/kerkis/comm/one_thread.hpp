// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>
#include <sched.h>

#include <atomic>
#include <cstdint>
#include <source_location>
#include <string>
#include <string_view>
#include <utility>

#include <kerkis/comm/mpi.hpp>

namespace kerkis::comm {

/// Nothing if this thread may call MPI, by the thread level that MPI gives; else why it may not.
inline std::string_view why_no_mpi() noexcept {
  int level = MPI_THREAD_MULTIPLE, is_main = 1;
  if (mpi_is_alive()) MPI_Query_thread(&level);
  if (level < MPI_THREAD_SERIALIZED) MPI_Is_thread_main(&is_main);
  if (is_main != 0) return {};
  return level == MPI_THREAD_SINGLE
             ? "MPI was initialised with MPI_THREAD_SINGLE; other threads need MPI_THREAD_SERIALIZED"
             : "MPI was initialised with MPI_THREAD_FUNNELED; other threads need MPI_THREAD_SERIALIZED";
}

/// For the checking mode: sees to it that one thread at a time is in the calls on a root communicator, which may be
/// nested, and that it may call MPI. It never waits for a thread that uses the communicator; a visit, by a thread that
/// uses another one, ends without waiting, and is waited for.
class OneThread {
 public:
  /// `name` is that of the root communicator, `rank` this process's in it.
  OneThread(std::string name, int rank) : rank_(rank), name_(std::move(name)) {}
  OneThread(const OneThread&) = delete;
  OneThread& operator=(const OneThread&) = delete;

  /// Nothing is checked before this.
  void begin() { checks_ = true; }
  bool checks() const { return checks_; }

  /// Whether this thread is inside now: false if another one is, or if this one may not call MPI. `call`, `operation`
  /// ("" if there is none) and `where` are for the error of a thread that comes meanwhile; their texts live for ever.
  bool enter(const char* call, const char* operation, std::source_location where) noexcept {
    std::uintptr_t now = inside_.load(std::memory_order_relaxed);
    if ((now & ~visitor) == self()) {
      ++depth_;
      return true;
    }
    if (!why_no_mpi().empty()) return false;
    for (;;) {
      now = 0;
      if (inside_.compare_exchange_strong(now, self(), std::memory_order_acquire)) break;
      if ((now & visitor) == 0) return false;
      sched_yield();
    }
    call_.store(call, std::memory_order_relaxed);
    operation_.store(operation, std::memory_order_relaxed);
    file_.store(where.file_name(), std::memory_order_relaxed);
    line_.store(where.line(), std::memory_order_relaxed);
    return true;
  }

  /// Whether this thread is inside now, as a visitor: false if any thread is, this one too.
  bool visit() noexcept {
    std::uintptr_t nobody = 0;
    return inside_.compare_exchange_strong(nobody, self() | visitor, std::memory_order_acquire);
  }

  [[gnu::noinline]] void leave() noexcept {
    if (depth_ > 0)
      --depth_;
    else
      inside_.store(0, std::memory_order_release);
  }

  /// Throws InputError if this thread may not enter, but does not enter.
  void look(const char* call) const {
    if (checks_) [[unlikely]]
      refuse_another(call);
  }

  /// Throws InputError if another thread is inside, or if this one may not call MPI.
  [[gnu::noinline]] void enter_or_throw(const char* call, const char* operation, std::source_location where) {
    if (!enter(call, operation, where)) throw refusal(call, operation, where);
  }

  /// What a thread that could not enter has to announce: the one inside does it. The first note counts.
  void leave_note(std::string_view text) noexcept {
    int none = 0;
    if (!state_of_note_.compare_exchange_strong(none, 1, std::memory_order_acquire)) return;
    note_ = text.substr(0, longest_announcement);
    state_of_note_.store(2, std::memory_order_release);
  }
  /// Null if there is none.
  const std::string* note() const noexcept {
    return state_of_note_.load(std::memory_order_acquire) == 2 ? &note_ : nullptr;
  }

 private:
  [[gnu::noinline]] void refuse_another(const char* call) const {
    if (another_is_inside() || !why_no_mpi().empty()) throw refusal(call, "", {});
  }
  bool another_is_inside() const noexcept {
    const std::uintptr_t now = inside_.load(std::memory_order_relaxed);
    return now != 0 && (now & visitor) == 0 && now != self();
  }

  /// For a thread that comes while another one is inside, or that may not call MPI.
  InputError refusal(const char* call, const char* operation, std::source_location where) const {
    if (const auto why = why_no_mpi(); !another_is_inside() && !why.empty())
      return InputError(message("rank ", rank_, ": a thread that did not initialise MPI uses communicator '", name_,
                                "': it comes to ", words(call, operation, where.file_name(), where.line()), ", but ",
                                why),
                        rank_, operation);
    return InputError(message("rank ", rank_, ": two threads use communicator '", name_,
                              "' at the same time: one comes to ",
                              words(call, operation, where.file_name(), where.line()), ", while another is in ",
                              words(call_.load(std::memory_order_relaxed), operation_.load(std::memory_order_relaxed),
                                    file_.load(std::memory_order_relaxed), line_.load(std::memory_order_relaxed)),
                              "; calls on a root communicator and its parts come from one thread at a time"),
                      rank_, operation);
  }

  static constexpr std::uintptr_t visitor = 1;
  static std::uintptr_t self() noexcept {
    static thread_local int place = 0;  // another one in each thread
    return reinterpret_cast<std::uintptr_t>(&place);
  }
  /// "poll", "the wait for receive, called at trainer.hpp:88"
  static std::string words(std::string_view call, std::string_view operation, std::string_view file, unsigned line) {
    const std::string text = operation.empty() ? std::string(call) : message(call, " ", operation);
    return line == 0 ? text : message(text, ", called at ", file.substr(file.rfind('/') + 1), ":", line);
  }

  bool checks_ = false;
  int rank_;
  std::string name_;
  std::atomic<std::uintptr_t> inside_{0};  // the thread's `self()`, and whether it is a visitor; 0: nobody
  int depth_ = 0;                          // of nested calls, of the thread that is inside
  std::atomic<const char*> call_{""}, operation_{""}, file_{""};
  std::atomic<unsigned> line_{0};
  std::atomic<int> state_of_note_{0};  // 1: being written, 2: written
  std::string note_;
};

/// In a call, from here to the end of its life.
class Inside {
 public:
  /// Throws InputError if this thread may not enter, unless nothing is checked. It takes no Operation, which would then
  /// have to lie in memory.
  Inside(OneThread& thread, const char* call, const char* operation, std::source_location where) : thread_(thread) {
    if (thread_.checks()) [[unlikely]]
      thread_.enter_or_throw(call, operation, where);
  }
  Inside(const Inside&) = delete;
  Inside& operator=(const Inside&) = delete;
  ~Inside() {
    if (thread_.checks()) [[unlikely]]
      thread_.leave();
  }

 private:
  OneThread& thread_;
};

}  // namespace kerkis::comm
