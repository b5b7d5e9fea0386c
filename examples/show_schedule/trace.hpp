// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kerkis/core/error.hpp>
#include <kerkis/schedule/table.hpp>

#include "picture.hpp"

/// Reads what was measured from a Chrome trace: complete events ("ph": "X") that are named as an action, with the rank
/// as "pid", "ts" and "dur" in microseconds, and "microbatch", "chunk" and "stage" in "args". Other events are passed
/// over. Of several steps the last is taken that all ranks have completed, of several replicas of the pipeline the one
/// with the lowest rank. Forwards that no backward follows (of a validation) count only if there is no backward at all.
class TraceFile {
 public:
  /// Throws InputError for what is no such trace, or none of this table.
  TraceFile(const std::string& file, const kerkis::schedule::Table& table) : file_(file), table_(table) {
    std::ifstream in(file, std::ios::binary);
    kerkis::require(in.good(), "the trace ", file, " can't be read: ", std::strerror(errno));
    try {
      const auto json = nlohmann::json::parse(in);
      const auto& events = json.is_object() ? json.at("traceEvents") : json;
      for (const auto& event : events) read(event);
    } catch (const nlohmann::json::exception& wrong) {
      throw kerkis::InputError(kerkis::message("the trace ", file, " is no Chrome trace: ", wrong.what()));
    }
    kerkis::require(!found_.empty(), "the trace ", file, " has no action of a schedule in it");
  }

  /// The last step, in milliseconds from its start. Throws InputError if it is not that of the table.
  Panel panel() {
    Panel panel{"", "ms", std::vector<std::vector<Box>>(static_cast<std::size_t>(table_.ranks()))};
    constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
    std::size_t steps = none;  // with a backward
    for (auto& [piece, kinds] : found_) {
      for (std::vector<Box>& events : kinds) std::sort(events.begin(), events.end(), earlier);
      if (piece.pid != pid_of_[piece.rank]) continue;
      for (std::size_t kind = 1; kind < kinds.size(); ++kind) {
        if (!kinds[kind].empty()) steps = std::min(steps, kinds[kind].size());
      }
    }
    for (const auto& [piece, kinds] : found_) {
      if (piece.pid != pid_of_[piece.rank]) continue;
      auto& row = panel.rows[static_cast<std::size_t>(piece.rank)];
      double latest = steps == none ? std::numeric_limits<double>::infinity() : -1e300;
      for (std::size_t kind = 1; kind < kinds.size(); ++kind) {
        if (kinds[kind].empty()) continue;
        row.push_back(kinds[kind][steps - 1]);
        latest = std::max(latest, row.back().start);
      }
      const std::vector<Box>& forwards = kinds.front();
      const auto after = std::partition_point(forwards.begin(), forwards.end(),
                                              [latest](const Box& box) { return box.start <= latest; });
      if (after != forwards.begin()) row.push_back(*std::prev(after));
    }
    double first = std::numeric_limits<double>::infinity();
    for (std::size_t rank = 0; rank < panel.rows.size(); ++rank) {
      auto& row = panel.rows[rank];
      std::sort(row.begin(), row.end(), earlier);
      check_order(static_cast<int>(rank), row, steps == none);
      if (!row.empty()) first = std::min(first, row.front().start);
    }
    for (auto& row : panel.rows) {
      for (Box& box : row) box.start = (box.start - first) * 1e-3, box.end = (box.end - first) * 1e-3;
    }
    return panel;
  }

 private:
  using ActionKind = kerkis::schedule::ActionKind;
  static_assert(static_cast<int>(ActionKind::forward) == 0);

  /// A microbatch in a chunk of a process, which is that rank of the pipeline.
  struct Piece {
    std::int64_t pid;
    int rank, microbatch, chunk;
    friend auto operator<=>(const Piece&, const Piece&) = default;
  };
  static constexpr std::size_t kinds_ = 4;

  static bool earlier(const Box& a, const Box& b) { return a.start < b.start; }

  static std::optional<ActionKind> kind_of(std::string_view name) {
    for (const auto kind :
         {ActionKind::forward, ActionKind::backward, ActionKind::backward_input, ActionKind::backward_weight}) {
      if (name == to_string(kind)) return kind;
    }
    return std::nullopt;
  }

  static std::string named(const kerkis::schedule::Action& action) {
    return kerkis::message(to_string(action.kind), " of microbatch ", action.microbatch, " in chunk ", action.chunk);
  }

  /// Of a validation, which has an order of its own, only the number of actions.
  void check_order(int rank, const std::vector<Box>& row, bool only_forwards) const {
    const auto& actions = table_.actions(rank);
    const auto planned =
        only_forwards ? static_cast<std::size_t>(table_.microbatches()) * static_cast<std::size_t>(table_.chunks())
                      : actions.size();
    kerkis::require(row.size() == planned, "the trace ", file_, " has ", row.size(), " actions of rank ", rank,
                    " in a step, the schedule has ", planned);
    for (std::size_t i = 0; i < row.size() && !only_forwards; ++i)
      kerkis::require(row[i].action == actions[i], "the trace ", file_, " is of another schedule: action ", i,
                      " of rank ", rank, " is ", named(row[i].action), ", not ", named(actions[i]));
  }

  void read(const nlohmann::json& event) {
    if (!event.is_object() || event.value("ph", "") != "X") return;
    const auto kind = kind_of(event.value("name", ""));
    if (!kind) return;
    const auto& args = event.at("args");
    const auto stage = args.at("stage").get<std::int64_t>(), microbatch = args.at("microbatch").get<std::int64_t>(),
               chunk = args.at("chunk").get<std::int64_t>();
    const auto start = event.at("ts").get<double>(), duration = event.at("dur").get<double>();
    const auto pid = event.at("pid").get<std::int64_t>();
    if (*kind == ActionKind::forward && microbatch >= table_.microbatches()) return;  // of a longer validation
    kerkis::require(stage >= 0 && stage < table_.stages() && microbatch >= 0 && microbatch < table_.microbatches() &&
                        table_.chunk_of(static_cast<int>(stage)) == chunk,
                    "the trace ", file_, " has ", to_string(*kind), " of stage ", stage, " (chunk ", chunk,
                    ") and microbatch ", microbatch, ", which the schedule has not");
    kerkis::require(duration >= 0 && std::abs(start) < 1e300 && duration < 1e300, "the trace ", file_,
                    " has an event at ", start, " of length ", duration);
    const int rank = table_.rank_of(static_cast<int>(stage));
    const auto [place, isnew] = pid_of_.emplace(rank, pid);
    if (!isnew) place->second = std::min(place->second, pid);
    const Piece piece{pid, rank, static_cast<int>(microbatch), static_cast<int>(chunk)};
    found_[piece][static_cast<std::size_t>(*kind)].push_back(
        {start, start + duration, {*kind, piece.microbatch, piece.chunk}});
  }

  std::string file_;
  const kerkis::schedule::Table& table_;
  std::map<Piece, std::array<std::vector<Box>, kinds_>> found_;  // by kind
  std::map<int, std::int64_t> pid_of_;                           // of a rank of the pipeline
};
