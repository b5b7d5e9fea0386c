// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>

namespace kerkis::asio {

/// How a Bridge shares its io_context's threads. It tests in slices, each of which is one handler to the io_context, so
/// that sockets and timers come in between; an operation alone is tested up to 16 times where its wait starts. While
/// nothing completes the bridge first tests again at once, then yields the core between slices, then leaves the thread
/// to the io_context until a timer expires.
struct BridgeOptions {
  int tests = 32;  ///< at most, per slice
  int spins = 64;  ///< tests in vain before the first yield
  /// Of yielding, then the timer. Large messages move only while MPI is called: the timer is for peers that compute.
  std::chrono::microseconds yield_for{2'000};
  std::chrono::microseconds sleep{20};           ///< the timer's least; it grows with the time spent in vain, 1 : 32
  std::chrono::microseconds longest_sleep{200};  ///< and to no more than this
};

}  // namespace kerkis::asio
