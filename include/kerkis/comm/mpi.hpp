// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <kerkis/comm/caller.hpp>
#include <kerkis/comm/live.hpp>
#include <kerkis/comm/peer.hpp>
#include <kerkis/comm/wait_policy.hpp>
#include <kerkis/core/error.hpp>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/lsan_interface.h>
#endif

namespace kerkis::comm {

/// Prints "kerkis: ", `text` and the end of the line on stderr in one write, so that the lines of several ranks do not
/// mix: stdio cuts what it does not buffer.
inline void print_error(std::string_view text) noexcept {
  const std::string line = message("kerkis: ", text, "\n");
  for (std::string_view rest = line; !rest.empty();) {
    const ssize_t written = ::write(STDERR_FILENO, rest.data(), rest.size());
    if (written < 0 && errno != EINTR) return;  // nobody is left to tell
    if (written > 0) rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

/// Puts a text where there is room for so many characters and a zero; one that is cut ends with "...".
template <std::size_t size>
void copy_cut(std::string_view text, std::array<char, size>& to) {
  constexpr std::string_view cut = "...";
  to = {};
  text.copy(to.data(), size - 1);
  if (text.size() >= size) cut.copy(to.data() + size - 1 - cut.size(), cut.size());
}

/// The same of a type's name, whose end tells most: one that is cut begins with "...".
template <std::size_t size>
void copy_end(std::string_view name, std::array<char, size>& to) {
  if (name.size() < size) return copy_cut(name, to);
  copy_cut(message("...", name.substr(name.size() - (size - 4))), to);
}

/// Elements that a rank sends to each and receives from each in an all_to_all.
struct UnevenCounts {
  std::span<const std::size_t> sends, receives;
};

/// What a request is doing, for messages and checks: "all_reduce #7 of 4096 float over 'data', called at
/// trainer.hpp:88".
struct Operation {
  const char* name = "";
  const char* type = "";   ///< of the elements; "" if there are none
  const char* order = "";  ///< of the elements, if it matters: "first index fastest"
  std::size_t count = 0;
  int to = no_rank, from = no_rank;      ///< of a hand-off: ranks of the communicator, or `any_rank`
  int root = -1;                         ///< of a collective that has one
  bool collective = true;                ///< every rank of the communicator takes part
  bool equal_counts = true;              ///< and `count` is the same on all of them
  const char* reduction = "";            ///< of a reduction
  std::size_t shards = 0;                ///< of one in their order; 0: in MPI's
  const UnevenCounts* uneven = nullptr;  ///< of an uneven all_to_all; read, as `begins`, while it is called
  const std::size_t* begins = nullptr;   ///< of blocks of other sizes, equal on all ranks: of each, and the end of all
  std::source_location where{};          ///< without a line: no call of the program, but the communicator's end
  const char* axis = "";                 ///< the communicator's name; it sets this and the number
  std::uint64_t sequence = 0;            ///< among its collectives, or among this rank's hand-offs

  Caller caller() const { return {name, where}; }
  std::string text() const {
    if (where.line() == 0) return message("the ", name, " of communicator '", axis, "'");
    std::string words = message(name, " #", sequence);
    if (*type != '\0') words += message(" of ", count, " ", type);
    if (to >= 0) words += message(" to rank ", to);
    if (from != no_rank) words += to >= 0 ? " and from " : " from ";
    if (from >= 0) words += message("rank ", from);
    if (from == any_rank) words += "any rank";
    return words + message(" over '", axis, "', called at ", call_site(where));
  }
};

/// `text`, which says all, as the failure of an operation.
[[gnu::cold]] inline CommError failure(const std::string& text, const Operation& operation, int rank,
                                       int mpi_class = 0) {
  const int peer = operation.from >= 0 ? operation.from : operation.to >= 0 ? operation.to : -1;
  return {text, rank, operation.name, mpi_class, operation.axis, peer, operation.where};
}

inline int mpi_class(int code) {
  int known = MPI_ERR_OTHER;
  MPI_Error_class(code, &known);
  return known;
}

/// What MPI says of its `code`, in one line: the words for its class, and the last line of what some libraries know
/// besides, the cause, unless that is of addresses or of unknown functions. `words` say what was done.
inline std::string mpi_text(int code, const std::string& words) {
  const int its_class = mpi_class(code);
  const auto text_of = [](int number) {
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    MPI_Error_string(number, text, &length);
    std::string all(text, static_cast<std::size_t>(length));
    while (all.ends_with('\n')) all.pop_back();
    return all.substr(all.rfind('\n') + 1);
  };
  const std::string text = text_of(its_class), cause = text_of(code);
  const auto has = [&](const char* part) { return cause.find(part) != std::string::npos; };
  const bool tells = cause != text && !has("0x") && !has("(unknown)");
  return message(words,
                 its_class == MPI_ERR_TRUNCATE
                     ? ": the message is longer than what was to receive it, or ends within an element"
                     : "",
                 ": ", text, tells ? ": " : "", tells ? cause : "");
}

[[noreturn, gnu::cold, gnu::noinline]] inline void throw_mpi_error(int code, const char* operation, int rank) {
  throw CommError(mpi_text(code, operation), rank, operation, mpi_class(code));
}
/// Throws CommError unless `code` is MPI_SUCCESS.
inline void check(int code, const char* operation, int rank = -1) {
  if (code != MPI_SUCCESS) [[unlikely]]
    throw_mpi_error(code, operation, rank);
}

inline bool mpi_is_alive() {
  int initialized = 0, finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  return initialized != 0 && finalized == 0;
}

/// As std::this_thread::sleep_for, but <thread> takes long to compile.
inline void sleep_for(std::chrono::microseconds time) {
  const timespec span{time.count() / 1'000'000, time.count() % 1'000'000 * 1'000};
  nanosleep(&span, nullptr);
}

/// Whether `request` completes within `limit`: the wait where there is no engine, before its start and after its end.
/// Throws CommError if MPI fails.
inline bool completes_within(MPI_Request& request, std::chrono::milliseconds limit, WaitPolicy policy = {}) {
  set_by_load(policy, true);  // it may be
  const auto start = std::chrono::steady_clock::now();
  for (int done = 0;;) {
    check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
    if (done != 0) return true;
    // In the limit's unit: its largest value is more than nanoseconds can count.
    const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
    if (waited >= limit) return false;
    Live::visit_all();
    if (waited < *policy.sleep_after)
      sched_yield();
    else
      sleep_for(policy.sleep);
  }
}

/// The same; what `report()` says is printed once, after `first_report`, if that is before `limit`.
template <class Report>
bool completes_within(MPI_Request& request, std::chrono::milliseconds limit, const WaitPolicy& policy,
                      std::chrono::milliseconds first_report, const Report& report) {
  if (completes_within(request, std::min(first_report, limit), policy)) return true;
  if (limit <= first_report) return false;
  print_error(report());
  return completes_within(request, limit - first_report, policy);
}

/// Asks MPI to withdraw a receive, and says whether it is withdrawn, and null (a persistent one inactive): else it has
/// its message, or that is coming in. MPI decides without the help of other ranks, at once or within a few tests.
/// Returns the MPI code.
inline int withdraw(MPI_Request& request, bool& withdrawn) {
  int done = 0, cancelled = 0;
  MPI_Status status;
  int code = MPI_Cancel(&request);
  for (int tests = 0; tests < 100 && code == MPI_SUCCESS && done == 0; ++tests)
    code = MPI_Request_get_status(request, &done, &status);
  if (done != 0) MPI_Test_cancelled(&status, &cancelled);
  withdrawn = cancelled != 0;
  if (withdrawn) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  return code;
}

/// Gives an object up for ever, since MPI may still read or write what it owns; returns it at its last place.
template <class T>
std::decay_t<T>& leak(T&& object) {
  auto* const lost = new std::decay_t<T>(std::forward<T>(object));
#if defined(__SANITIZE_ADDRESS__)
  __lsan_ignore_object(lost);
#endif
  return *lost;
}

/// A communicator that is being made. Its engine does not work yet, so that its waits are these.
struct Construction {
  /// `communicator` is the one it is made from.
  Construction(MPI_Comm communicator, std::string its_name, const WaitPolicy& its_policy,
               std::source_location its_where)
      : name(std::move(its_name)), policy(its_policy), where(its_where) {
    MPI_Comm_rank(communicator, &rank);
    MPI_Comm_size(communicator, &size);
  }

  /// For what refuses it.
  Caller caller() const { return {"Communicator", where}; }
  std::string text() const {
    return message("the construction of communicator '", name, "' of ", size, size == 1 ? " rank" : " ranks",
                   where.line() != 0 ? ", called at " + call_site(where) : "");
  }
  CommError failure(const std::string& words, int its_rank, int mpi_class = 0) const {
    return {words, its_rank, "construction", mpi_class, name, -1, where};
  }

  std::string name;
  WaitPolicy policy;
  std::source_location where;
  int rank = 0, size = 1;
};

/// Waits for a step of a construction: reports once on stderr, and throws CommError at the deadline, or if MPI fails.
/// `met`: all ranks have done a step before it.
inline void await(MPI_Request& request, const Construction& construction, bool met) {
  const WaitPolicy& policy = construction.policy;
  const auto report = [&](std::chrono::milliseconds waited) {
    return message(construction.text(), ", waited ", static_cast<double>(waited.count()) / 1000, " s; ",
                   met ? "all ranks have come to it, but not all to its end"
                       : "which ranks have not come is unknown: until it is made they do not see each other");
  };
  const auto first_report = [&] {
    return message("rank ", construction.rank, " still waits: ", report(policy.first_report));
  };
  if (completes_within(request, policy.deadline, policy, policy.first_report, first_report)) return;
  throw construction.failure(report(policy.deadline), construction.rank);
}

/// Has MPI return the errors of a communicator, whatever its handler of errors is, until the end of this object.
class ErrorsReturned {
 public:
  explicit ErrorsReturned(MPI_Comm communicator) : communicator_(communicator) {
    check(MPI_Comm_get_errhandler(communicator_, &before_), "MPI_Comm_get_errhandler");
    MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN);
  }
  ErrorsReturned(const ErrorsReturned&) = delete;
  ErrorsReturned& operator=(const ErrorsReturned&) = delete;
  ~ErrorsReturned() {
    MPI_Comm_set_errhandler(communicator_, before_);
    MPI_Errhandler_free(&before_);
  }

 private:
  MPI_Comm communicator_;
  MPI_Errhandler before_ = MPI_ERRHANDLER_NULL;
};

/// For errors of calls that make communicators: MPI's own texts may not tell.
inline constexpr const char* limit_of_mpich =
    " (MPICH has 2,048 communicators for a process: a Communicator takes two of them, a part of one another, and each "
    "one more in checking mode)";

/// Duplicates a communicator: collective over it, and under the deadline. Throws CommError, without a rank if MPI
/// fails: it does on all of them.
inline MPI_Comm duplicate(MPI_Comm user, const Construction& construction, bool met) {
  const ErrorsReturned here(user);
  std::vector<MPI_Comm> copy(1, MPI_COMM_NULL);
  MPI_Request request = MPI_REQUEST_NULL;
  try {
    check(MPI_Comm_idup(user, copy.data(), &request), "MPI_Comm_idup");
    await(request, construction, met);
  } catch (const CommError& error) {
    leak(std::move(copy));  // MPI may still write it
    if (error.mpi_class() == MPI_SUCCESS) throw;
    throw construction.failure(message(construction.text(), ": MPI makes no duplicate: ", error.what(), limit_of_mpich),
                               -1, error.mpi_class());
  }
  return copy.front();
}

/// Bytes of the text of a failure, as it goes to the other ranks.
inline constexpr std::size_t longest_announcement = 2048;

/// What the engines of this process have left behind, perhaps on several threads at once.
struct LeftBehind {
  std::mutex mutex;  ///< for `communicators`
  /// On which failures were announced: announcements may still be on their way, from ranks that failed at the same
  /// time.
  std::vector<MPI_Comm> communicators;
  std::atomic<bool> unheard = false;  ///< an error that could not be thrown: the program does not know of it
};
inline LeftBehind& left_behind() {
  static LeftBehind all;
  return all;
}

/// For a destructor, which can't throw: prints the error, and Environment ends the job for it.
inline void report_unheard(const char* during, const std::exception& error) noexcept {
  print_error(message("while ", during, ": ", error.what()));
  left_behind().unheard = true;
}

}  // namespace kerkis::comm
