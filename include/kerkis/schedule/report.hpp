// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include <kerkis/schedule/action.hpp>
#include <kerkis/schedule/communication.hpp>
#include <kerkis/schedule/live.hpp>

namespace kerkis::schedule {

/// What a rank has under way per peer and direction. {0, 0} is plain blocking communication.
struct Depth {
  int receives = 0;  ///< posted ahead of need
  int sends = 0;     ///< left behind unfinished

  friend constexpr bool operator==(const Depth&, const Depth&) = default;
};

/// As deep as may help.
inline constexpr Depth unbounded{std::numeric_limits<int>::max(), std::numeric_limits<int>::max()};

/// What can be wrong with a table.
enum class Fault : unsigned char {
  none,        ///< it is proven
  refused,     ///< by the schedule itself
  bad_shape,   ///< its extents, lists and stages do not fit together
  bad_action,  ///< of a kind, microbatch or chunk that the table does not have
  doubled,     ///< a computation is there twice
  missing,     ///< a computation is not there
  misordered,  ///< a computation comes before one that it needs
  deadlock     ///< ranks wait for each other
};

/// In words.
[[nodiscard]] constexpr std::string_view to_string(Fault fault) noexcept {
  switch (fault) {
  case Fault::none:
    return "proven";
  case Fault::refused:
    return "the schedule can't do this number of ranks, microbatches or chunks";
  case Fault::bad_shape:
    return "the table does not fit together";
  case Fault::bad_action:
    return "an action is of a kind, microbatch or chunk that the table does not have";
  case Fault::doubled:
    return "a computation is listed twice";
  case Fault::missing:
    return "a computation is missing";
  case Fault::misordered:
    return "a computation comes before one that it needs";
  case Fault::deadlock:
    return "deadlock";
  }
  return "unknown";
}

/// One rank that waits for another.
struct Wait {
  int rank = 0;          ///< who waits
  int peer = 0;          ///< for whom
  bool sending = false;  ///< until the peer receives `message`; else until it sends it
  Action action;         ///< where the waiting rank stands
  Message message;       ///< that is not handed over
};

/// What the verifier has found.
struct Report {
  Fault fault = Fault::none;  ///< the first that was found
  std::string_view detail;    ///< of a bad shape: what does not fit
  int stage = -1;             ///< and the stage that `detail` ends with; -1 if with none
  int rank = -1;              ///< where the fault is; -1 if nowhere in particular
  Action action;              ///< the computation at fault (deadlock: where that rank stands)
  Depth depth;                ///< the depth that was tried
  std::vector<Wait> cycle;    ///< of a deadlock: each waits for the next, the last for the first
  std::vector<Live> peaks;    ///< per rank, if the lists are valid

  /// Whether the table is proven.
  [[nodiscard]] constexpr bool ok() const noexcept { return fault == Fault::none; }
};

/// The report in words, one line.
[[nodiscard]] inline std::string explain(const Report& report) {
  const auto words = [](const Action& action) {
    return std::string(to_string(action.kind)) + " of microbatch " + std::to_string(action.microbatch) + ", chunk " +
           std::to_string(action.chunk);
  };
  std::string text(to_string(report.fault));
  if (report.depth == unbounded && report.fault == Fault::deadlock) {
    text += " at any depth of posted receives and buffered sends";
  } else if (report.ok() || report.fault == Fault::deadlock) {
    text += " with " + std::to_string(report.depth.receives) + " posted receives and " +
            std::to_string(report.depth.sends) + " buffered sends per peer and direction";
  } else if (report.rank >= 0) {
    text += ": rank " + std::to_string(report.rank) + ", " + words(report.action);
  } else if (!report.detail.empty()) {
    text += ": " + std::string(report.detail);
    if (report.stage >= 0) text += " " + std::to_string(report.stage);
  }
  const char* separator = ": ";
  for (const Wait& wait : report.cycle) {
    text += separator + ("rank " + std::to_string(wait.rank)) + " (" + words(wait.action) + ") waits for rank " +
            std::to_string(wait.peer) + (wait.sending ? " to receive the " : " to send the ") +
            (wait.message.direction == Direction::forward ? "activation" : "gradient") + " of microbatch " +
            std::to_string(wait.message.microbatch);
    separator = "; ";
  }
  return text;
}

}  // namespace kerkis::schedule
