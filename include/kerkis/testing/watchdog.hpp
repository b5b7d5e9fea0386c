// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <mpi.h>

#include <time.h>
#include <unistd.h>

namespace kerkis::testing {

/// Ends the process when what it does takes too long, and says what that was and on which rank. A thread that hangs
/// inside MPI or a kernel cannot be asked, so this is a timer signal (SIGALRM). The job ends by MPI_Abort with status
/// 124, after a pause in which the other ranks can report too. The seconds are KERKIS_TEST_TIMEOUT, or 120.
class Watchdog {
 public:
  /// `rank`: for its message. There can be one at a time.
  explicit Watchdog(int rank) {
    state().rank = rank;
    if (const char* text = std::getenv("KERKIS_TEST_TIMEOUT")) {
      const int seconds = std::atoi(text);
      if (seconds > 0) state().seconds = static_cast<unsigned>(seconds);
    }
    struct sigaction action{};
    action.sa_handler = &expire;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);  // a second alarm kills
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
    const timespec pause{.tv_sec = 2, .tv_nsec = 0};
    nanosleep(&pause, nullptr);
    // A status alone does not reach the user: mpiexec of MPICH 4.2.1 reports 0 for many a rank that only leaves
    // (pmodels/mpich issue 7057). MPI_Abort is not meant for signal handlers: where it hangs, the next alarm kills.
    alarm(2);
    MPI_Abort(MPI_COMM_WORLD, 124);
    _exit(124);
  }
};

}  // namespace kerkis::testing
