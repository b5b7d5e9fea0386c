// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include <kerkis/schedule/detail/array.hpp>
#include <kerkis/schedule/report.hpp>
#include <kerkis/schedule/table.hpp>

namespace kerkis::schedule::detail {

/// Where one rank's list computes a microbatch of a chunk; 0 is nowhere.
struct Positions {
  int forward = 0;
  int input = 0;
  int weight = 0;
};

/// Each computation once, and after those of this rank that it needs. Dependencies between ranks are for the trial.
constexpr void check_list(const Table& table, int rank, Report& report) {
  const auto fault = [&](Fault what, Action action) {
    report.fault = what;
    report.rank = rank;
    report.action = action;
  };

  Array<Positions> positions(table.chunks() * table.microbatches());
  const auto at = [&](int microbatch, int chunk) -> Positions& {
    return positions[chunk * table.microbatches() + microbatch];
  };
  int position = 0;
  for (const Action& action : table.actions(rank)) {
    ++position;
    if (!known(action.kind) || action.chunk < 0 || action.chunk >= table.chunks()) {
      return fault(Fault::bad_action, action);
    }
    const KindTraits& kind = traits(action.kind);
    if (!kind.computes()) continue;
    if (action.microbatch < 0 || action.microbatch >= table.microbatches() || (!kind.forward && !table.trains())) {
      return fault(Fault::bad_action, action);
    }
    Positions& where = at(action.microbatch, action.chunk);
    if (kind.forward) {
      if (where.forward != 0) return fault(Fault::doubled, action);
      where.forward = position;
    }
    if (kind.input_gradient) {
      if (where.input != 0) return fault(Fault::doubled, action);
      where.input = position;
    }
    if (kind.weight_gradient) {
      if (where.weight != 0) return fault(Fault::doubled, action);
      where.weight = position;
    }
  }

  for (int chunk = 0; chunk < table.chunks(); ++chunk) {
    // A neighbouring stage of the same rank sends no message: its place in the list must do.
    const int stage = table.stage(rank, chunk);
    const bool before_own = stage + 1 < table.stages() && table.rank_of(stage + 1) == rank;
    for (int m = 0; m < table.microbatches(); ++m) {
      const Positions& here = at(m, chunk);
      if (here.forward == 0) return fault(Fault::missing, {ActionKind::forward, m, chunk});
      const auto [direction, before, its] = forward_input(table, stage, m);
      if (before >= 0 && table.rank_of(before) == rank && at(its, table.chunk_of(before)).forward > here.forward) {
        return fault(Fault::misordered, {ActionKind::forward, m, chunk});
      }
      if (!table.trains()) continue;
      if (here.input == 0 && here.weight == 0) return fault(Fault::missing, {ActionKind::backward, m, chunk});
      if (here.input == 0) return fault(Fault::missing, {ActionKind::backward_input, m, chunk});
      if (here.weight == 0) return fault(Fault::missing, {ActionKind::backward_weight, m, chunk});
      if (here.input < here.forward || (before_own && at(m, table.chunk_of(stage + 1)).input > here.input)) {
        return fault(Fault::misordered, {ActionKind::backward_input, m, chunk});
      }
      if (here.weight < here.input) return fault(Fault::misordered, {ActionKind::backward_weight, m, chunk});
    }
  }
}

/// All lists, and the peaks if they are valid.
constexpr Report check_lists(const Table& table) {
  Report report;
  if (const auto misfit = table.misfit(); !misfit.what.empty()) {
    report.fault = Fault::bad_shape;
    report.detail = misfit.what;
    report.stage = misfit.stage;
    return report;
  }
  for (int rank = 0; rank < table.ranks(); ++rank) {
    check_list(table, rank, report);
    if (!report.ok()) return report;
  }
  report.peaks.reserve(static_cast<std::size_t>(table.ranks()));
  for (int rank = 0; rank < table.ranks(); ++rank) report.peaks.push_back(peak_live(table, rank));
  return report;
}

}  // namespace kerkis::schedule::detail
