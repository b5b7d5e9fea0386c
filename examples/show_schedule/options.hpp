// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kerkis/core/error.hpp>
#include <kerkis/schedule/automatic.hpp>
#include <kerkis/schedule/registry.hpp>
#include <kerkis/schedule/simulator.hpp>

#include "../command_line.hpp"

/// The flags of show_schedule.
struct Options {
  std::string schedule = "1f1b";
  int ranks = 4, microbatches = 8;
  std::optional<int> chunks;
  kerkis::schedule::Times times;
  std::optional<double> memory_limit;
  double weight_share = 0.5;
  bool barrier = false;
  bool json = false;
  std::string svg, csv, trace;

  /// The text that --help asks for, if it does.
  std::string help;

  /// Throws InputError for what makes no sense.
  static Options parse(int argc, char** argv) {
    Options o;
    std::string ranks = "4", microbatches = "8", chunks, times = "1,1,1,0", memory_limit, weight_share = "0.5";
    CLI::App app("Draws a pipeline schedule, and says how long a step takes and what it keeps in memory.");
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)->always_capture_default();
    app.add_option("--schedule", o.schedule, names())->type_name("NAME");
    app.add_option("--stages", ranks, "ranks of the pipeline")->type_name("P");
    app.add_option("--microbatches", microbatches, "of a step")->type_name("M");
    app.add_option("--chunks", chunks, "stages per rank, where the schedule leaves them open (then 2)")->type_name("V");
    app.add_option("--times", times,
                   "of a microbatch on a rank: forward, backward for the input, for the weights, message")
        ->type_name("F,B,W,COMM");
    app.add_option("--memory-limit", memory_limit,
                   "microbatches that a rank may keep; automatic plans for it (then 2 P)")
        ->type_name("L");
    app.add_option("--weight-share", weight_share,
                   "what a microbatch counts of that once only its gradients of weights are to come")
        ->type_name("SHARE");
    app.add_flag("--barrier", o.barrier, "automatic: plan for a step with a barrier before the optimizer");
    app.add_flag("--json", o.json, "print one JSON object");
    app.add_option("--svg", o.svg, "file for the picture")->type_name("FILE");
    app.add_option("--csv", o.csv, "file for the table, as PyTorch reads it")->type_name("FILE");
    app.add_option("--trace", o.trace, "Chrome trace of a run under this schedule, drawn below the plan")
        ->type_name("FILE");
    try {
      app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      o.help = app.help();
      return o;
    } catch (const CLI::ParseError& wrong) {
      throw kerkis::InputError(kerkis::message(wrong.what(), " (--help lists the flags)"));
    }

    constexpr int most = 1 << 20;
    o.ranks = whole("--stages", ranks, 1, most);
    o.microbatches = whole("--microbatches", microbatches, 1, most);
    if (app.count("--chunks") > 0) o.chunks = whole("--chunks", chunks, 1, most);
    if (app.count("--memory-limit") > 0) o.memory_limit = real("--memory-limit", memory_limit, 1, 1e9);
    o.weight_share = real("--weight-share", weight_share, 0, 1);
    o.times = four_times(times);
    const std::string wrong =
        command_line::check_files(app, {{"--svg", o.svg}, {"--csv", o.csv}, {"--trace", o.trace}});
    kerkis::require(wrong.empty(), wrong);
    kerkis::require(o.trace.empty() || !std::filesystem::is_directory(o.trace), "--trace: '", o.trace,
                    "' is a directory");
    return o;
  }

  static std::string names() {
    std::string all;
    for (const std::string_view name : kerkis::schedule::Known::names) all.append(name).append(", ");
    return all.append(kerkis::Automatic::name);
  }

 private:
  static int whole(std::string_view flag, const std::string& text, int least, int most) {
    const std::string wrong = command_line::check_whole(text, least, most);
    kerkis::require(wrong.empty(), flag, ": ", wrong);
    return std::stoi(text);
  }
  static double real(std::string_view flag, const std::string& text, double least, double most) {
    const std::string wrong = command_line::check_real(text, least, most);
    kerkis::require(wrong.empty(), flag, ": ", wrong);
    return std::strtod(text.c_str(), nullptr);  // stod refuses subnormal numbers
  }

  static kerkis::schedule::Times four_times(const std::string& text) {
    std::vector<double> values;
    for (std::size_t begin = 0; begin <= text.size();) {
      const std::size_t comma = std::min(text.find(',', begin), text.size());
      values.push_back(real("--times", text.substr(begin, comma - begin), 0, 1e100));
      begin = comma + 1;
    }
    kerkis::require(values.size() == 4, "--times: ", values.size(), " numbers in ", text, ", not the four F,B,W,COMM");
    return {values[0], values[1], values[2], values[3]};
  }
};
