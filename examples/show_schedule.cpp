// SPDX-License-Identifier: Apache-2.0
// Draws any pipeline schedule, and says how long a step takes and what it keeps in memory. Needs no MPI to run.
//
//     show_schedule --schedule zb-v --stages 4 --microbatches 8 --svg zb-v.svg

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include <kerkis/core/error.hpp>
#include <kerkis/schedule/automatic.hpp>
#include <kerkis/schedule/csv.hpp>
#include <kerkis/schedule/live.hpp>
#include <kerkis/schedule/registry.hpp>
#include <kerkis/schedule/simulator.hpp>
#include <kerkis/schedule/verifier.hpp>

#include "show_schedule/options.hpp"
#include "show_schedule/picture.hpp"
#include "show_schedule/trace.hpp"

namespace kk = kerkis;
namespace ks = kerkis::schedule;

/// Throws InputError for a name that is not known, and numbers that the schedule can't do.
ks::Table table_of(const Options& o) {
  if (o.schedule == kk::Automatic::name) {
    return kk::Automatic{
        .times = {o.times}, .memory_limit = o.memory_limit, .weight_share = o.weight_share, .barrier = o.barrier}
        .table({o.ranks, o.microbatches, o.chunks.value_or(1)});
  }
  const auto& known = ks::Known::names;
  kk::require(std::find(std::begin(known), std::end(known), o.schedule) != std::end(known), "no schedule is called '",
              o.schedule, "'; there are ", Options::names());
  int chunks = 0;
  ks::Known::visit(o.schedule, [&]<class S>() {
    const int its = ks::shape_for<S>({1, 1, ks::chunks_of_shape}).chunks;
    chunks = its != ks::chunks_of_shape ? its : o.chunks.value_or(2);
  });
  kk::require(!o.chunks || *o.chunks == chunks, "the schedule ", o.schedule, " has ", chunks,
              chunks == 1 ? " chunk" : " chunks", " per rank, not ", *o.chunks);
  constexpr long long most = 1 << 22;
  kk::require(o.ranks * static_cast<long long>(chunks) <= most / o.microbatches, o.ranks, " ranks with ", chunks,
              " chunks each and ", o.microbatches, " microbatches are too many: their product is above ", most);
  return ks::make_table(o.schedule, {o.ranks, o.microbatches, chunks});
}

void write(const std::string& file, const std::string& text) {
  std::ofstream out(file, std::ios::binary | std::ios::trunc);
  out << text << std::flush;
  kk::require(out.good(), file, " can't be written: ", std::strerror(errno));
}

/// As printf does.
std::string format(const char* how, double value) {
  char text[64];
  std::snprintf(text, sizeof text, how, value);
  return text;
}

/// A schedule, played.
struct Plan {
  explicit Plan(const Options& o) : table(table_of(o)), report(verify(table)), line(simulate(table, o.times)) {
    if (!report.ok()) throw kk::Error("the schedule " + o.schedule + " is wrong: " + explain(report));
    for (const ks::Live& live : report.peaks) {
      until_input.push_back(whole_stages(live.until_input, table));
      until_weight.push_back(whole_stages(live.until_weight, table));
    }
    const ks::StageMemory kept{(1 - o.weight_share) / table.chunks(), o.weight_share / table.chunks()};
    memory = peak_memory(table, {&kept, 1});
  }

  ks::Table table;
  ks::Report report;
  ks::Timeline line;
  std::vector<double> until_input, until_weight, memory;  // per rank, in microbatches of a whole stage
};

void print_json(const Plan& plan) {
  const nlohmann::ordered_json json{{"span", plan.line.span},
                                    {"makespan", plan.line.makespan},
                                    {"bubble_rate", plan.line.bubble_rate},
                                    {"peak_until_input", plan.until_input},
                                    {"peak_until_weight", plan.until_weight},
                                    {"receive_depth", plan.report.depth.receives},
                                    {"send_depth", plan.report.depth.sends}};
  std::printf("%s\n", json.dump().c_str());
}

std::string title_of(const Options& o, const ks::Table& table) {
  const auto count = [](int n, const char* what) { return kk::message(n, ' ', what, n == 1 ? "" : "s"); };
  std::string text = o.schedule + ": " + count(table.ranks(), "rank") + ", " +
                     (table.microbatches() == 1 ? "1 microbatch" : kk::message(table.microbatches(), " microbatches"));
  if (table.chunks() > 1) text += ", " + count(table.chunks(), "chunk") + " per rank";
  return text;
}

void print_table(const Options& o, const Plan& plan) {
  const ks::Timeline& line = plan.line;
  std::printf("%s\n", title_of(o, plan.table).c_str());
  std::printf(
      "  times of a microbatch on a rank: forward %g, backward for the input %g, for the weights %g; message %g\n",
      o.times.forward, o.times.backward_input, o.times.backward_weight, o.times.communication);
  std::printf("  step                                  %12.6g\n", line.span);
  std::printf("  step with a barrier before the optimizer %9.6g\n", line.makespan);
  std::printf("  bubble                                %11.2f %%\n", 100 * line.bubble_rate);
  double computing = 0, messages = 0;
  int hops = 0, before = -1;
  for (const ks::CriticalStep& step : critical_path(plan.table, line)) {
    computing += step.duration;
    messages += step.delay;
    hops += before >= 0 && step.rank != before ? 1 : 0;
    before = step.rank;
  }
  std::printf("  critical path: %.6g computing, %.6g in messages; it changes the rank %d time%s\n", computing, messages,
              hops, hops == 1 ? "" : "s");
  std::printf("  runs with %d receive%s posted ahead and %d send%s buffered per peer and direction\n\n",
              plan.report.depth.receives, plan.report.depth.receives == 1 ? "" : "s", plan.report.depth.sends,
              plan.report.depth.sends == 1 ? "" : "s");
  std::printf("  %5s %12s %12s %8s   most microbatches kept until backward for\n", "rank", "start", "end", "idle %");
  std::printf("  %5s %12s %12s %8s   %10s %10s %10s\n", "", "", "", "", "the input", "weights", "weighed");
  for (int rank = 0; rank < plan.table.ranks(); ++rank) {
    const auto r = static_cast<std::size_t>(rank);
    const auto& actions = line.actions[r];
    double work = 0;
    for (const ks::Interval& when : actions) work += when.end - when.start;
    const double span = actions.back().end - actions.front().start;
    std::printf("  %5d %12.6g %12.6g %8.2f   %10.4g %10.4g %10.4g\n", rank, actions.front().start, actions.back().end,
                span > 0 ? std::max(0.0, 100 * (1 - work / span)) : 0.0, plan.until_input[r], plan.until_weight[r],
                plan.memory[r]);
  }
}

Panel planned(const Plan& plan) {
  Panel panel{kk::message("planned: step ", format("%.6g", plan.line.span), ", with a barrier before the optimizer ",
                          format("%.6g", plan.line.makespan), ", bubble ", format("%.1f", 100 * plan.line.bubble_rate),
                          " %"),
              "time",
              {}};
  for (int rank = 0; rank < plan.table.ranks(); ++rank) {
    auto& row = panel.rows.emplace_back();
    std::size_t k = 0;
    for (const ks::Action& action : plan.table.actions(rank)) {
      const ks::Interval& when = plan.line.actions[static_cast<std::size_t>(rank)][k++];
      row.push_back({when.start, when.end, action});
    }
  }
  return panel;
}

/// The measured step, with the same figures; also printed unless that is to be JSON alone.
Panel measured(const Options& o, const ks::Table& table) {
  Panel panel = TraceFile(o.trace, table).panel();
  double span = 0, work = 0;
  for (const auto& row : panel.rows) {
    for (const Box& box : row) work += box.end - box.start;
    if (!row.empty()) span = std::max(span, row.back().end - row.front().start);
  }
  const double bubble = span > 0 ? 1 - work / table.ranks() / span : 0;
  panel.title = kk::message("measured: step ", format("%.6g", span), " ms, with a barrier before the optimizer ",
                            format("%.6g", panel.end()), " ms, bubble ", format("%.1f", 100 * bubble), " %");
  if (!o.json) std::printf("\n  %s\n", panel.title.c_str());
  return panel;
}

int show(const Options& o) {
  if (!o.help.empty()) {
    std::printf("%s", o.help.c_str());
    return 0;
  }
  const Plan plan(o);
  if (!o.csv.empty()) write(o.csv, to_csv(plan.table));
  if (o.json) {
    print_json(plan);
  } else {
    print_table(o, plan);
  }
  std::vector<Panel> panels{planned(plan)};
  if (!o.trace.empty()) panels.push_back(measured(o, plan.table));
  if (!o.svg.empty()) write(o.svg, Picture(title_of(o, plan.table), std::move(panels), plan.table.chunks()).svg());
  kk::require(std::fflush(stdout) == 0 && std::ferror(stdout) == 0, "the output can't be written");
  const double most = *std::max_element(plan.memory.begin(), plan.memory.end());
  if (o.memory_limit && most > *o.memory_limit + 1e-9) {
    std::fprintf(stderr, "note: %s keeps up to %g microbatches, more than the limit of %g\n", o.schedule.c_str(), most,
                 *o.memory_limit);
  }
  return 0;
}

int main(int argc, char** argv) {
  try {
    return show(Options::parse(argc, argv));
  } catch (const kk::InputError& wrong) {
    std::fprintf(stderr, "show_schedule: %s\n", wrong.what());
    return 2;
  } catch (const std::exception& wrong) {
    std::fprintf(stderr, "show_schedule: %s\n", wrong.what());
    return 1;
  }
}
