// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace kerkis {

/// How a rank waits. MPICH's blocking calls never give the core away; with more ranks than cores they take milliseconds
/// where a wait that yields takes microseconds, so every wait of the library tests, then yields, then sleeps: who has
/// waited for milliseconds waits for a rank that computes, perhaps on this very core. By itself a communicator spins 64
/// times where its ranks are more than the cores that they share, 2,000 times where each has a core.
struct WaitPolicy {
  int spins = -1;                                  ///< tests before the first yield; -1: by the host's load
  std::chrono::milliseconds sleep_after{2};        ///< of yielding, then sleep between tests
  std::chrono::microseconds sleep{20};             ///< at a time
  std::chrono::milliseconds first_report{30'000};  ///< then a line on stderr says what is awaited
  std::chrono::milliseconds deadline{300'000};     ///< then the wait throws CommError
};

}  // namespace kerkis
