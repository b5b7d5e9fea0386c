// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kerkis/core/error.hpp>
#include <kerkis/schedule/action.hpp>
#include <kerkis/schedule/table.hpp>

/// Schedules as files: the CSV of PyTorch's torch.distributed.pipelining (2.6). A row per rank, a cell per action:
/// stage, letter, microbatch, as in 0F0 or 3W12. F is forward, B backward, I backward_input, W backward_weight. Empty
/// cells are pauses and mean nothing here.
namespace kerkis::schedule {

/// The table as such a file, one line per rank.
[[nodiscard]] inline std::string to_csv(const Table& table) {
  std::string text;
  for (int rank = 0; rank < table.ranks(); ++rank) {
    const char* separator = "";
    for (const Action& action : table.actions(rank)) {
      const KindTraits& kind = traits(action.kind);
      text.append(separator).append(std::to_string(table.stage(rank, action.chunk))) += kind.letter;
      if (kind.computes()) text += std::to_string(action.microbatch);
      separator = ",";
    }
    text += '\n';
  }
  return text;
}

namespace detail {

/// One rank's row, or a complaint about it.
class CsvRow {
 public:
  struct Cell {
    int stage;
    ActionKind kind;
    int microbatch;
  };

  CsvRow(std::string_view row, int rank) : rank_(rank) {
    for (std::size_t begin = 0; begin <= row.size();) {
      const std::size_t comma = std::min(row.find(',', begin), row.size());
      ++column_;
      cell(trim(row.substr(begin, comma - begin)));
      begin = comma + 1;
    }
  }

  std::vector<Cell> cells;

 private:
  static std::string_view trim(std::string_view text) {
    while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
    while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
    return text;
  }

  void cell(std::string_view text) {
    if (text.empty()) return;
    std::string_view rest = text;
    const int stage = number(rest, text);
    const auto letters = static_cast<std::size_t>(
        std::find_if(rest.begin(), rest.end(), [](char c) { return c >= '0' && c <= '9'; }) - rest.begin());
    const std::string_view kind = rest.substr(0, letters);
    rest.remove_prefix(letters);
    // What follows from the table anyhow.
    if (kind == "SEND_F" || kind == "RECV_F" || kind == "SEND_B" || kind == "RECV_B") return;
    const auto* const found = std::find_if(std::begin(kind_traits), std::end(kind_traits), [&](const KindTraits& k) {
      return kind.size() == 1 && k.computes() && k.letter == kind.front();
    });
    if (found == std::end(kind_traits)) complain(text, "is no forward (F), backward (B, or I and W), or message");
    const int microbatch = number(rest, text);
    if (!rest.empty()) complain(text, "goes on after the microbatch");
    cells.push_back({stage, static_cast<ActionKind>(found - std::begin(kind_traits)), microbatch});
  }

  int number(std::string_view& text, std::string_view cell) const {
    int value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || value < 0) complain(cell, "lacks a number, or has one that is out of range");
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    return value;
  }

  /// Of a hostile cell only the beginning is repeated, and nothing that a terminal would obey.
  [[noreturn]] void complain(std::string_view cell, std::string_view what) const {
    std::string shown(cell.substr(0, 20));
    for (char& c : shown) c = c < ' ' || c > '~' ? '?' : c;
    throw InputError(message("schedule file: row ", rank_ + 1, ", cell ", column_, ": ", shown,
                             cell.size() > 20 ? "... " : " ", what, "; cells are like 0F0 or 3W12"));
  }

  int rank_;
  int column_ = 0;
};

}  // namespace detail

/// The table of such a file. A rank's chunks are its stages in ascending order; without any backward it is a table for
/// inference. SEND_F, RECV_F, SEND_B and RECV_B are passed over, since messages follow from a table; other kinds of
/// action are refused. Throws InputError for what is no such file, and unless every rank has as many stages, every
/// stage is on one rank, and there are enough cells for all microbatches of all stages. Whether the order is sound is
/// for `verify` to say.
[[nodiscard]] inline Table from_csv(std::string_view text) {
  std::vector<std::vector<detail::CsvRow::Cell>> rows;
  std::size_t cells = 0;
  bool trains = false;
  int last_stage = -1, last_microbatch = -1;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    rows.push_back(std::move(detail::CsvRow(text.substr(0, end), static_cast<int>(rows.size())).cells));
    text.remove_prefix(std::min(end + 1, text.size()));
    cells += rows.back().size();
    for (const auto& cell : rows.back()) {
      trains = trains || !traits(cell.kind).forward;
      last_stage = std::max(last_stage, cell.stage);
      last_microbatch = std::max(last_microbatch, cell.microbatch);
    }
  }
  while (!rows.empty() && rows.back().empty()) rows.pop_back();
  require(!rows.empty(), "schedule file: there is no action in it");

  // Bounds all that is allocated from here on by the size of the file.
  const std::size_t stages = static_cast<std::size_t>(last_stage) + 1;
  const std::size_t microbatches = static_cast<std::size_t>(last_microbatch) + 1;
  require(stages <= cells && microbatches <= cells / stages, "schedule file: ", cells, " actions are too few for ",
          stages, " stages and ", microbatches, " microbatches");
  require(stages % rows.size() == 0, "schedule file: ", stages, " stages on ", rows.size(),
          " ranks: every rank must have as many");
  const std::size_t chunks = stages / rows.size();

  std::vector<ActionList> lists(rows.size());
  std::vector<int> placement;
  std::vector<int> chunk_of(stages, -1);
  for (std::size_t rank = 0; rank < rows.size(); ++rank) {
    std::vector<int> mine;
    for (const auto& cell : rows[rank]) mine.push_back(cell.stage);
    std::sort(mine.begin(), mine.end());
    mine.erase(std::unique(mine.begin(), mine.end()), mine.end());
    require(mine.size() == chunks, "schedule file: row ", rank + 1, " has ", mine.size(), " stages, not ", chunks);
    for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
      int& here = chunk_of[static_cast<std::size_t>(mine[chunk])];
      require(here < 0, "schedule file: stage ", mine[chunk], " is on two ranks");
      here = static_cast<int>(chunk);
    }
    placement.insert(placement.end(), mine.begin(), mine.end());
    for (const auto& cell : rows[rank]) {
      lists[rank].append({cell.kind, cell.microbatch, chunk_of[static_cast<std::size_t>(cell.stage)]});
    }
  }
  const PipelineShape shape{static_cast<int>(rows.size()), static_cast<int>(microbatches), static_cast<int>(chunks)};
  return Table(shape, std::move(lists), std::move(placement), trains ? Purpose::training : Purpose::inference);
}

}  // namespace kerkis::schedule
