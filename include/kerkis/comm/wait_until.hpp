// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sched.h>

#include <chrono>

#include <kerkis/comm/mpi.hpp>
#include <kerkis/comm/wait_policy.hpp>

namespace kerkis::comm {

/// How long an operation may still become complete after another rank has failed.
inline constexpr std::chrono::milliseconds grace{50};

/// While tests follow at once, other things are looked for after so many only: they cost as much as a test.
inline constexpr int tests_per_poll = 32;

/// Waits as `policy` says, all of which is set, until `complete()`, which tests; `poll_others()` lets other things move
/// on, and throws what a rank has announced. Then there is a moment to become complete all the same, since that rank
/// may have done its part before it failed. Once it no longer only spins, it calls `late(waited, first)` between tests,
/// which throws when a deadline has passed, and reports when `first` is true: once.
template <class Complete, class Poll, class Late>
void wait_until(const WaitPolicy& policy, Complete&& complete, Poll&& poll_others, Late&& late) {
  using Clock = std::chrono::steady_clock;
  try {
    for (int spin = 0; spin < policy.spins; ++spin) {
      if (complete()) return;
      if (spin % tests_per_poll == tests_per_poll - 1) poll_others();
    }
    bool reported = false;
    for (const auto start = Clock::now(); !complete();) {
      poll_others();
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
      late(waited, !reported && waited >= policy.first_report);
      reported = waited >= policy.first_report;
      if (waited < *policy.sleep_after)
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

}  // namespace kerkis::comm
