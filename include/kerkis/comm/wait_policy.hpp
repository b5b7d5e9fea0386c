// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <optional>

#include <kerkis/comm/caller.hpp>
#include <kerkis/core/error.hpp>

namespace kerkis {

/// How a rank waits. MPICH's blocking calls never give the core away; with more ranks than cores they take milliseconds
/// where a wait that yields takes microseconds, so every wait of the library tests, then yields, then sleeps. Who
/// sleeps does not move data on, but who yields takes up to a quarter of a core from the rank that computes there. So
/// by itself a communicator spins 64 times and sleeps after 2 ms where its ranks are more than the cores that they
/// share, 2,000 times and after 100 ms where each has a core: few messages take that long.
///
/// Times are above 0, but `sleep_after` may be 0; the largest value, std::chrono::milliseconds::max(), means never. A
/// root communicator refuses others with InputError. See docs/contract.md for deadlines.
struct WaitPolicy {
  int spins = -1;                                          ///< tests before the first yield; -1: by the host's load
  std::optional<std::chrono::milliseconds> sleep_after{};  ///< of yielding, then sleep between tests; by the load
  std::chrono::microseconds sleep{20};                     ///< at a time
  std::chrono::milliseconds first_report{30'000};          ///< then a line on stderr says what is awaited
  std::chrono::milliseconds deadline{300'000};             ///< then the wait throws CommError
};

namespace comm {

/// Sets what `policy` leaves to the host's load.
inline void set_by_load(WaitPolicy& policy, bool more_ranks_than_cores) {
  if (policy.spins < 0) policy.spins = more_ranks_than_cores ? 64 : 2000;
  if (!policy.sleep_after) policy.sleep_after = std::chrono::milliseconds(more_ranks_than_cores ? 2 : 100);
}

/// Throws InputError for times that mean nothing.
inline void check_policy(Caller caller, const WaitPolicy& policy) {
  const auto check = [&](const char* name, auto time, const char* unit, int least) {
    require(time.count() >= least, caller, ": its wait's ", name, " is ", time.count(), " ", unit, ", less than ",
            least);
  };
  require(policy.spins >= -1, caller, ": its wait's spins are ", policy.spins, ", less than -1");
  check("sleep_after", policy.sleep_after.value_or(std::chrono::milliseconds(0)), "ms", 0);
  check("sleep", policy.sleep, "µs", 1);
  check("first_report", policy.first_report, "ms", 1);
  check("deadline", policy.deadline, "ms", 1);
}

/// Throws InputError for a deadline of a call that means nothing; 0 is the communicator's.
inline void require_deadline(Caller caller, std::chrono::milliseconds deadline) {
  require(deadline.count() >= 0, caller, ": the deadline is ", deadline.count(), " ms, less than 0");
}

}  // namespace comm
}  // namespace kerkis
