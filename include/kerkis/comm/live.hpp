// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <atomic>

namespace kerkis::comm {

/// What every wait of this process moves on, whatever it waits for: engines in checking mode, which start collectives
/// later than they are called. None is here that has not joined, or has left.
class Live {
 public:
  /// `visit(owner)` must not throw, wait, join or leave.
  Live(void (*visit)(void*), void* owner) : visit_(visit), owner_(owner) {}
  Live(const Live&) = delete;
  Live& operator=(const Live&) = delete;

  void join() noexcept {
    lock();
    next_ = first_.load(std::memory_order_relaxed);
    first_.store(this, std::memory_order_relaxed);
    locked_.clear(std::memory_order_release);
  }

  /// When it returns no visit is under way, and none comes any more. Without effect for one that has not joined.
  void leave() noexcept {
    lock();
    if (first_.load(std::memory_order_relaxed) == this) {
      first_.store(next_, std::memory_order_relaxed);
    } else {
      for (Live* one = first_.load(std::memory_order_relaxed); one != nullptr; one = one->next_)
        if (one->next_ == this) one->next_ = next_;
    }
    locked_.clear(std::memory_order_release);
  }

  /// Returns at once if there are none, or if another thread visits them.
  static void visit_all() noexcept {
    if (first_.load(std::memory_order_relaxed) == nullptr || locked_.test_and_set(std::memory_order_acquire)) return;
    for (const Live* one = first_.load(std::memory_order_relaxed); one != nullptr; one = one->next_)
      one->visit_(one->owner_);
    locked_.clear(std::memory_order_release);
  }

 private:
  static void lock() noexcept {
    while (locked_.test_and_set(std::memory_order_acquire)) sched_yield();  // a visit does not wait
  }

  static inline constinit std::atomic<Live*> first_{nullptr};
  static inline constinit std::atomic_flag locked_{};

  void (*visit_)(void*);
  void* owner_;
  Live* next_ = nullptr;
};

}  // namespace kerkis::comm
