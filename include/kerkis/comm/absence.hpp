// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <kerkis/comm/group.hpp>
#include <kerkis/comm/peers.hpp>

namespace kerkis::comm {

/// 31.26 s as 31.3
inline double tenths(std::int64_t milliseconds) { return static_cast<double>((milliseconds + 50) / 100) / 10; }

/// "ranks 2, 3 and 5"
inline std::string rank_list(const std::vector<int>& ranks) {
  constexpr std::size_t most = 16;
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < std::min(ranks.size(), most); ++i)
    text += message(i == 0 ? "" : i + 1 == ranks.size() ? " and " : ", ", ranks[i]);
  return ranks.size() > most ? text + message(" and ", ranks.size() - most, " more") : text;
}

/// "rank 2 last entered broadcast #1042 at loader.hpp:51, 31 s ago"; the communicator is named if it is not `axis`.
inline std::string last_entered(int rank, const PeerState& state, const std::string& axis) {
  std::string text = message("rank ", rank);
  if (state.process == ProcessState::unknown) return text + " is in an unknown state";
  if (state.process == ProcessState::gone) return text + " does not answer: its process is gone";
  if (state.process == ProcessState::stopped) text += " does not answer";
  if (state.entered_any == 0) return state.process == ProcessState::stopped ? text : text + " has entered nothing yet";
  text += message(state.process == ProcessState::stopped ? "; it" : "", " last entered ", state.last.name.data());
  if (state.last_sequence > 0) text += message(" #", state.last_sequence);
  if (state.last.axis.data() != axis) text += message(" over '", state.last.axis.data(), "'");
  return text + message(" at ", state.last.file.data(), ":", state.last.line, ", ", tenths(state.age), " s ago");
}

/// For the report of a deadline: which of `ranks` (of the root communicator) have not come to `operation`, on the
/// communicator of that number, and what they do. The first few are described.
inline std::string absence(const Peers& peers, std::vector<int> ranks, int own, int number,
                           const Operation& operation) {
  std::erase(ranks, own);
  const auto states = peers.states(ranks, number);
  std::vector<int> absent, unknown, silent;
  std::string details;
  int described = 0;
  const std::string axis = operation.axis;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const PeerState& state = states[i];
    const bool answers = state.process == ProcessState::runs;
    const bool comes_late =
        operation.collective && state.sequence >= 0 && state.sequence < static_cast<std::int64_t>(operation.sequence);
    if (state.process == ProcessState::unknown || (operation.collective && answers && state.sequence < 0))
      unknown.push_back(ranks[i]);
    else if (comes_late || (operation.collective && state.sequence < 0))
      absent.push_back(ranks[i]);
    else if (operation.collective && answers)
      continue;
    else if (operation.collective)
      silent.push_back(ranks[i]);
    if (state.process != ProcessState::unknown && ++described <= 8)
      details += message(details.empty() ? "" : "; ", last_entered(ranks[i], state, axis));
  }
  std::string text;
  const auto add = [&](const std::vector<int>& some, const char* one, const char* many) {
    if (!some.empty()) text += message("; ", rank_list(some), some.size() == 1 ? one : many);
  };
  add(absent, " has not come", " have not come");
  add(silent, " has come, but does not answer", " have come, but do not answer");
  if (!details.empty()) text += (text.empty() ? "; " : ": ") + details;
  if (!unknown.empty()) text += message("; the state of ", rank_list(unknown), " is unknown");
  return text.empty() ? "; every rank has come (KERKIS_CHECK=1 finds calls that do not match)" : text;
}

}  // namespace kerkis::comm
