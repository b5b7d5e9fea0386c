// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <cstdio>
#include <cstdlib>

#include <time.h>
#include <unistd.h>

namespace kerkis::testing {

/// Ends the process when what it does takes too long, and says what that was and on which rank. A thread that hangs
/// inside MPI or a kernel cannot be asked, so this is a timer signal (SIGALRM). The launcher ends the other ranks,
/// after a pause in which they can report too. The seconds are KERKIS_TEST_TIMEOUT, or 120.
class Watchdog {
 public:
  explicit Watchdog(int rank) {
    state().rank = rank;
    if (const char* text = std::getenv("KERKIS_TEST_TIMEOUT")) {
      const int seconds = std::atoi(text);
      if (seconds > 0) state().seconds = static_cast<unsigned>(seconds);
    }
    struct sigaction action{};
    action.sa_handler = &expire;
    sigaction(SIGALRM, &action, nullptr);
  }

  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  ~Watchdog() {
    alarm(0);
    std::signal(SIGALRM, SIG_DFL);
  }

  /// Starts the time of the next thing to do.
  void watch(const char* what, const char* file, unsigned line) noexcept {
    State& current = state();
    alarm(0);
    // The message is made here: a signal handler may format nothing.
    current.length =
        std::snprintf(current.message, sizeof current.message, "[rank %d] hangs, no end after %u s: %s (%s:%u)\n",
                      current.rank, current.seconds, what, file, line);
    if (current.length >= static_cast<int>(sizeof current.message)) {
      current.length = static_cast<int>(sizeof current.message) - 1;
      current.message[current.length - 1] = '\n';
    }
    alarm(current.seconds);
  }

 private:
  struct State {
    char message[600] = {};
    int length = 0;
    int rank = 0;
    unsigned seconds = 120;
  };

  // A signal handler reaches static objects only.
  static State& state() {
    static State instance;
    return instance;
  }

  static void expire(int) {
    const State& current = state();
    if (write(STDERR_FILENO, current.message, static_cast<std::size_t>(current.length)) < 0) _exit(125);
    // Not all ranks at the same instant: a launcher that sees them end together may take that for success.
    const timespec pause{.tv_sec = 2, .tv_nsec = current.rank % 32 * 20'000'000L};
    nanosleep(&pause, nullptr);
    _exit(124);
  }
};

}  // namespace kerkis::testing
