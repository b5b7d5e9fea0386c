// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>
#include <sched.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include <kerkis/comm/engine.hpp>
#include <kerkis/comm/mpi.hpp>

namespace kerkis {

namespace comm {

/// Receives what was announced too late, once all ranks have met after the failure: messages that nobody takes make
/// MPI_Finalize complain.
inline void receive_abandoned() {
  std::vector<MPI_Comm> communicators;
  {
    const std::lock_guard<std::mutex> lock(left_behind().mutex);
    communicators.swap(left_behind().communicators);
  }
  for (const MPI_Comm communicator : communicators) {
    using std::chrono::microseconds;
    const auto limit = std::min(microseconds(20'000), microseconds(400'000) / std::ssize(communicators));
    std::string text(longest_announcement, '\0');
    const auto start = std::chrono::steady_clock::now();
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_SUCCESS, done = 1;
    while (code == MPI_SUCCESS && std::chrono::steady_clock::now() - start < limit) {
      if (done != 0)
        code =
            MPI_Irecv(text.data(), static_cast<int>(text.size()), MPI_CHAR, MPI_ANY_SOURCE, 0, communicator, &request);
      else
        sched_yield();
      if (code == MPI_SUCCESS) code = MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    }
    bool withdrawn = true;
    if (request != MPI_REQUEST_NULL) withdraw(request, withdrawn);
    if (!withdrawn) leak(std::move(text));
  }
}

}  // namespace comm

/// Of Environment and `run`. Of its times the largest value, std::chrono::milliseconds::max(), means for ever.
struct EnvironmentOptions {
  /// Of Kokkos on each rank. 0: as OMP_NUM_THREADS or KOKKOS_NUM_THREADS says; without them the cores this rank may
  /// use, shared with the ranks beside it.
  int threads = 0;
  std::chrono::milliseconds grace{5'000};  ///< how long a rank that failed waits for the others before it ends the job
  std::chrono::milliseconds deadline{3'600'000};   ///< the same for a rank that has finished
  std::chrono::milliseconds first_report{30'000};  ///< then a line on stderr says that it waits
};

/// Starts MPI (MPI_THREAD_FUNNELED) and Kokkos unless the program has done so itself, and ends what it started.
class Environment {
 public:
  /// Collective over MPI_COMM_WORLD. Throws CommError if MPI fails, and Error if Kokkos does not start (no GPU, say),
  /// after `finish` with that error.
  Environment(int& argc, char**& argv, EnvironmentOptions options = {}) : options_(options) {
    int initialized = 0;
    MPI_Initialized(&initialized);
    if (initialized == 0) {
      int provided = 0;
      comm::check(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread");
      owns_mpi_ = true;
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    world_ = comm::duplicate(MPI_COMM_WORLD, {MPI_COMM_WORLD, "Environment", {}, {}}, false);
    started() = this;
    std::atexit(at_exit);
    if (!Kokkos::is_initialized()) start_kokkos();
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment() {
    if (!finished_) finish(0, {}, false, true);
  }

  /// In MPI_COMM_WORLD.
  int rank() const { return rank_; }
  /// The number of ranks of MPI_COMM_WORLD.
  int size() const { return size_; }

  /// Ends what was started, together with the other ranks. One rank prints `text`, if any: the first whose failure is
  /// its own. Returns the largest status. If ranks do not come, or `clean` does not hold on all of them (something is
  /// pending that MPI_Finalize would wait for), the job is ended by MPI_Abort instead. An error that a destructor could
  /// only print makes the status at least 1, and is not clean.
  int finish(int status, const std::string& text, bool is_peer, bool clean) noexcept {
    finished_ = true;
    if (started() == this) started() = nullptr;
    if (comm::left_behind().unheard) {
      clean = false;
      status = std::max(status, 1);
    }
    const int priority = text.empty() ? 2 * size_ : rank_ + (is_peer ? size_ : 0);
    std::array<int, 3> outcome{priority, -status, clean ? 1 : 0};
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallreduce(MPI_IN_PLACE, outcome.data(), 3, MPI_INT, MPI_MIN, world_, &request);
    if (!complete(request, status == 0 ? options_.deadline : options_.grace)) {
      comm::print_error(message("rank ", rank_, ": ", text, text.empty() ? "" : "; ",
                                "the other ranks did not come to the end: the job is aborted"));
      abort(status == 0 ? 1 : status);
    }
    if (!text.empty() && outcome[0] == priority) comm::print_error(text);
    if (outcome[2] == 0) {
      if (outcome[0] == priority) abort(-outcome[1]);
      std::this_thread::sleep_for(options_.grace);  // the abort ends this rank
      std::_Exit(-outcome[1]);
    }
    comm::receive_abandoned();
    MPI_Comm_free(&world_);
    if (owns_kokkos_) Kokkos::finalize();
    if (owns_mpi_) MPI_Finalize();
    return -outcome[1];
  }

 private:
  /// The one that has not finished.
  static Environment*& started() {
    static Environment* one = nullptr;
    return one;
  }
  /// std::exit ends no block: the other ranks would wait for this one, or be ended by the launcher with status 0.
  static void at_exit() {
    if (started() == nullptr || !comm::mpi_is_alive()) return;
    comm::print_error(message("rank ", started()->rank_,
                              ": the program ends by exit() before its Environment, or `run`: the job is aborted"));
    abort(1);
  }

  void start_kokkos() {
    try {
      auto settings = Kokkos::InitializationSettings().set_disable_warnings(true);
      const bool asked = std::getenv("OMP_NUM_THREADS") != nullptr || std::getenv("KOKKOS_NUM_THREADS") != nullptr;
      if (options_.threads > 0)
        settings.set_num_threads(options_.threads);
      else if (const int share = threads_per_rank(); !asked)  // which is collective
        settings.set_num_threads(share);
      Kokkos::initialize(settings);
      owns_kokkos_ = true;
    } catch (const std::exception& error) {
      const std::string text = message("Kokkos does not start: ", error.what());
      finish(1, text, false, true);
      throw Error(text);
    }
  }

  /// The cores that this process may use, divided among the ranks of the node. All ranks have just met.
  static int threads_per_rank() {
    MPI_Comm node = MPI_COMM_NULL;
    int ranks = 1;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_size(node, &ranks);
    MPI_Comm_free(&node);
    cpu_set_t cores;
    const int count = sched_getaffinity(0, sizeof(cores), &cores) == 0 ? CPU_COUNT(&cores) : 1;
    return std::max(1, count / ranks);
  }

  /// Ends the job. The launcher forgets what it has not read from the ranks by then: it gets a moment for that.
  static void abort(int status) {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    MPI_Abort(MPI_COMM_WORLD, status);
  }

  /// An MPI that fails at the end counts as ranks that do not come.
  bool complete(MPI_Request& request, std::chrono::milliseconds limit) const {
    try {
      return comm::completes_within(request, limit, {}, options_.first_report, [&] {
        return message("rank ", rank_, " still waits: the end of the program, waited ",
                       comm::tenths(options_.first_report.count()), " s; some ranks have not come to it");
      });
    } catch (const Error&) {
      return false;
    }
  }

  EnvironmentOptions options_;
  bool owns_mpi_ = false, owns_kokkos_ = false, finished_ = false;
  int rank_ = 0, size_ = 1;
  MPI_Comm world_ = MPI_COMM_NULL;
};

/// A whole program: starts MPI and Kokkos, calls `body` (which returns an exit status, or nothing for 0), prints an
/// error once, and gives the exit status: 2 after InputError, 1 after any other exception.
template <class Body>
int run(int argc, char** argv, EnvironmentOptions options, Body&& body) {
  std::optional<Environment> started;
  try {
    started.emplace(argc, argv, options);
  } catch (const CommError&) {
    throw;
  } catch (const Error&) {
    return 1;  // printed
  }
  Environment& environment = *started;
  try {
    int status = 0;
    if constexpr (std::is_void_v<std::invoke_result_t<Body&>>)
      body();
    else
      status = body();
    return environment.finish(status, {}, false, true);
  } catch (const PeerError& error) {
    return environment.finish(1, error.what(), true, false);
  } catch (const InputError& error) {
    return environment.finish(2, error.what(), false, true);
  } catch (const Error& error) {
    return environment.finish(1, error.what(), false,
                              error.rank() < 0);  // without a rank, every rank fails in the same way
  } catch (const std::bad_alloc&) {
    return environment.finish(1, "out of memory", false, false);
  } catch (const std::exception& error) {
    return environment.finish(1, error.what(), false, false);
  } catch (...) {
    return environment.finish(1, "an exception that is no std::exception", false, false);
  }
}

/// The same with the options that nobody has to set.
template <class Body>
int run(int argc, char** argv, Body&& body) {
  return run(argc, argv, EnvironmentOptions{}, std::forward<Body>(body));
}

}  // namespace kerkis
