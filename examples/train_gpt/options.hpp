// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kerkis/core/error.hpp>
#include <kerkis/policy/pipeline_options.hpp>
#include <kerkis/schedule/choose.hpp>

#include "../command_line.hpp"

/// The flags of train_gpt.
struct TrainOptions {
  // the plan
  std::size_t data = 0;  ///< 0: the ranks that remain
  std::size_t tensor = 1, pipeline = 1;
  std::string schedule = "1f1b";
  int microbatches = 0;     ///< 0: one per pipeline rank
  int chunks = 1;           ///< of layers per pipeline rank, where the schedule leaves them open
  double memory_limit = 0;  ///< of the automatic schedule, in microbatches; 0: its own
  std::string recompute = "none", stage_costs = "even";
  bool post_validation = false;
  int threads = 0;  ///< per rank; 0: the cores of the node, shared by its ranks
  // the model
  std::int64_t layers = 4, heads = 4, width = 128, context = 64;
  double dropout = 0;
  bool tie = true;
  std::string precision = "float";
  // the training
  std::int64_t batch = 16, steps = 600, warmup = 40;
  double learning_rate = 3e-3, weight_decay = 0.1, clip = 1;
  std::uint64_t seed = 1;
  // input and output
  std::string text, log, trace;
  std::int64_t validate_every = 100, sample = 300, verify = 0;
  double temperature = 0.8;

  /// What the command line asks for besides training: a text to print (--help), or what is wrong with it.
  std::string help, error;

  /// Of none, full or every:K; nothing if it is something else.
  static std::optional<kerkis::Recomputation> recomputation(std::string_view text) {
    if (text == "none") return kerkis::Recomputation::none();
    if (text == "full") return kerkis::Recomputation::full();
    constexpr std::string_view every = "every:";
    if (!text.starts_with(every)) return std::nullopt;
    const std::string layers(text.substr(every.size()));
    if (!command_line::check_whole(layers, 1, 1 << 14).empty()) return std::nullopt;
    return kerkis::Recomputation::every(std::stoll(layers));
  }

  /// How the layers lie in the pipeline, but for their costs.
  kerkis::PipelineOptions pipeline_options() const {
    kerkis::Automatic automatic;
    if (memory_limit > 0) automatic.memory_limit = memory_limit;
    return {.schedule = schedule == kerkis::Automatic::name ? kerkis::schedule::choose(automatic)
                                                            : kerkis::schedule::choose(schedule),
            .chunks = chunks,
            .recompute = recomputation(recompute)};
  }

  static TrainOptions parse(int argc, char** argv) {
    TrainOptions o;
    CLI::App app("Trains a byte-level GPT on text under a plan of data, tensor and pipeline parallelism.");
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)->always_capture_default();
    const auto whole = [](std::int64_t least, std::int64_t most) {
      return CLI::Validator([=](std::string& text) { return command_line::check_whole(text, least, most); }, "INT",
                            "whole");
    };
    const auto real = [](double least, double most) {
      return CLI::Validator([=](std::string& text) { return command_line::check_real(text, least, most); }, "REAL",
                            "real");
    };

    app.add_option("--data", o.data, "data replicas; 0: the ranks that remain")
        ->check(whole(0, 1 << 20))
        ->group("Plan");
    app.add_option("--tensor", o.tensor, "ranks that share each layer's matrices")
        ->check(whole(1, 1 << 20))
        ->group("Plan");
    app.add_option("--pipeline", o.pipeline, "stages of layers")->check(whole(1, 1 << 20))->group("Plan");
    std::vector<std::string> schedules;
    for (const std::string_view name : kerkis::schedule::Known::names) schedules.emplace_back(name);
    schedules.emplace_back(kerkis::Automatic::name);
    app.add_option("--schedule", o.schedule, "of the pipeline")->check(CLI::IsMember(schedules))->group("Plan");
    app.add_option("--microbatches", o.microbatches, "per data replica; 0: one per pipeline rank")
        ->check(whole(0, 1 << 16))
        ->group("Plan");
    app.add_option("--chunks", o.chunks, "of layers per pipeline rank, where the schedule leaves them open")
        ->check(whole(1, 1 << 14))
        ->group("Plan");
    app.add_option("--memory-limit", o.memory_limit,
                   "of the automatic schedule: microbatches that a rank may keep; 0: two per pipeline rank")
        ->check(real(0, 1e9))
        ->group("Plan");
    app.add_option("--recompute", o.recompute,
                   "none, full or every:K layers: keep the inputs of such segments only, and run their forward again")
        ->check(CLI::Validator(
            [](std::string& text) {
              return recomputation(text) ? std::string() : kerkis::message(text, " is none of none, full, every:K");
            },
            "none|full|every:K", "recompute"))
        ->group("Plan");
    app.add_option(
           "--stage-costs", o.stage_costs,
           "even: as many layers in every stage; measured: by the time that layers, embedding and head take here")
        ->check(CLI::IsMember({"even", "measured"}))
        ->group("Plan");
    app.add_flag("--post-validation", o.post_validation,
                 "pipeline ranks begin the next step before the gradient norm of all is known, and take the step back "
                 "and again if it was above --clip; as much memory again for a copy")
        ->group("Plan");
    app.add_option("--threads", o.threads, "per rank; 0: the cores of the node, shared by its ranks")
        ->check(whole(0, 256))
        ->group("Plan");

    app.add_option("--layers", o.layers, "transformer blocks")->check(whole(1, 1 << 14))->group("Model");
    app.add_option("--heads", o.heads, "attention heads of a block")->check(whole(1, 1 << 14))->group("Model");
    app.add_option("--width", o.width, "of the hidden states, a multiple of the heads")
        ->check(whole(1, 1 << 16))
        ->group("Model");
    app.add_option("--context", o.context, "bytes that a sequence sees")->check(whole(1, 1 << 20))->group("Model");
    app.add_option("--dropout", o.dropout, "probability, below 1")->check(real(0, 0.999))->group("Model");
    app.add_flag("--tie,!--no-tie", o.tie, "output weights are the embedding's (the default)")->group("Model");
    app.add_option("--precision", o.precision)->check(CLI::IsMember({"float", "double"}))->group("Model");

    app.add_option("--batch", o.batch, "sequences of a whole step")->check(whole(1, 1 << 24))->group("Training");
    app.add_option("--steps", o.steps)->check(whole(1, 1LL << 31))->group("Training");
    app.add_option("--learning-rate", o.learning_rate, "the peak")->check(real(0, 1e300))->group("Training");
    app.add_option("--warmup", o.warmup, "steps of linear warm-up")->check(whole(0, 1LL << 31))->group("Training");
    app.add_option("--weight-decay", o.weight_decay, "of matrices")->check(real(0, 1e300))->group("Training");
    app.add_option("--clip", o.clip, "largest gradient norm; 0: any")->check(real(0, 1e300))->group("Training");
    app.add_option("--seed", o.seed)->check(whole(0, std::numeric_limits<std::int64_t>::max()))->group("Training");

    app.add_option("--text", o.text,
                   "file to train on, any bytes; its last tenth is held out. Default: the licence texts of the system")
        ->group("Text");
    app.add_option("--validate-every", o.validate_every, "steps; 0: at the end only")
        ->check(whole(0, 1LL << 31))
        ->group("Text");
    app.add_option("--log", o.log, "file for one JSON object per step")->group("Text");
    app.add_option("--trace", o.trace, "file for what every rank did, which chrome://tracing and Perfetto show")
        ->group("Text");
    app.add_option("--sample", o.sample, "bytes to generate at the end")->check(whole(0, 1 << 24))->group("Text");
    app.add_option("--temperature", o.temperature, "of the sample; 0: always the likeliest byte")
        ->check(real(0, 1e300))
        ->group("Text");
    app.add_option("--verify", o.verify, "repeat so many first steps on one rank and compare the losses")
        ->check(whole(0, 1LL << 31))
        ->group("Text");

    try {
      app.parse(argc, argv);
      o.error = command_line::check_files(app, {{"--text", o.text}, {"--log", o.log}, {"--trace", o.trace}});
      if (o.memory_limit > 0 && o.memory_limit < 1) o.error = "--memory-limit: a rank keeps at least 1 microbatch";
      if (o.memory_limit > 0 && o.schedule != kerkis::Automatic::name)
        o.error = "--memory-limit: only the automatic schedule has one";
    } catch (const CLI::CallForHelp&) {
      o.help = app.help();
    } catch (const CLI::ParseError& wrong) {
      o.error = kerkis::message(wrong.what(), " (--help lists the flags)");
    }
    return o;
  }
};
