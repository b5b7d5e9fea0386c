// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <string>

#include <kerkis/core/error.hpp>

/// The flags of train_gpt.
struct Options {
  // the plan
  std::size_t data = 0;  ///< 0: the ranks that remain
  std::size_t tensor = 1, pipeline = 1;
  std::string schedule = "1f1b";
  int microbatches = 0;  ///< 0: one per stage
  int threads = 0;       ///< per rank; 0: the cores of the node, shared by its ranks
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
  std::string text, log;
  std::int64_t validate_every = 100, sample = 300, verify = 0;
  double temperature = 0.8;

  /// What the command line asks for besides training: a text to print (--help), or what is wrong with it.
  std::string help, error;

  static Options parse(int argc, char** argv) {
    Options o;
    CLI::App app("Trains a byte-level GPT on text under a plan of data, tensor and pipeline parallelism.");
    app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)->always_capture_default();
    const auto at_least = [](auto least) { return CLI::Range(least, static_cast<decltype(least)>(std::numeric_limits<std::int32_t>::max())); };

    app.add_option("--data", o.data, "data replicas; 0: the ranks that remain")->group("Plan");
    app.add_option("--tensor", o.tensor, "ranks that share each layer's matrices")->check(at_least(1))->group("Plan");
    app.add_option("--pipeline", o.pipeline, "stages of layers")->check(at_least(1))->group("Plan");
    app.add_option("--schedule", o.schedule, "of the pipeline")->check(CLI::IsMember({"gpipe", "1f1b"}))->group("Plan");
    app.add_option("--microbatches", o.microbatches, "per data replica; 0: one per stage")->check(at_least(0))->group("Plan");
    app.add_option("--threads", o.threads, "per rank; 0: the cores of the node, shared by its ranks")->check(at_least(0))->group("Plan");

    app.add_option("--layers", o.layers, "transformer blocks")->check(at_least(std::int64_t{1}))->group("Model");
    app.add_option("--heads", o.heads, "attention heads of a block")->check(at_least(std::int64_t{1}))->group("Model");
    app.add_option("--width", o.width, "of the hidden states, a multiple of the heads")->check(at_least(std::int64_t{1}))->group("Model");
    app.add_option("--context", o.context, "bytes that a sequence sees")->check(at_least(std::int64_t{1}))->group("Model");
    app.add_option("--dropout", o.dropout, "probability, below 1")->check(CLI::Range(0.0, 0.999))->group("Model");
    app.add_flag("--tie,!--no-tie", o.tie, "output weights are the embedding's (the default)")->group("Model");
    app.add_option("--precision", o.precision)->check(CLI::IsMember({"float", "double"}))->group("Model");

    app.add_option("--batch", o.batch, "sequences of a whole step")->check(at_least(std::int64_t{1}))->group("Training");
    app.add_option("--steps", o.steps)->check(at_least(std::int64_t{1}))->group("Training");
    app.add_option("--learning-rate", o.learning_rate, "the peak")->check(CLI::NonNegativeNumber)->group("Training");
    app.add_option("--warmup", o.warmup, "steps of linear warm-up")->check(at_least(std::int64_t{0}))->group("Training");
    app.add_option("--weight-decay", o.weight_decay, "of matrices")->check(CLI::NonNegativeNumber)->group("Training");
    app.add_option("--clip", o.clip, "largest gradient norm; 0: any")->check(CLI::NonNegativeNumber)->group("Training");
    app.add_option("--seed", o.seed)->group("Training");

    app.add_option("--text", o.text, "file to train on, any bytes; its last tenth is held out. Default: the licence texts of the system")->group("Text");
    app.add_option("--validate-every", o.validate_every, "steps; 0: at the end only")->check(at_least(std::int64_t{0}))->group("Text");
    app.add_option("--log", o.log, "file for one JSON object per step")->group("Text");
    app.add_option("--sample", o.sample, "bytes to generate at the end")->check(at_least(std::int64_t{0}))->group("Text");
    app.add_option("--temperature", o.temperature, "of the sample; 0: always the likeliest byte")->check(CLI::NonNegativeNumber)->group("Text");
    app.add_option("--verify", o.verify, "repeat so many first steps on one rank and compare the losses")->check(at_least(std::int64_t{0}))->group("Text");

    try {
      app.parse(argc, argv);
    } catch (const CLI::CallForHelp&) {
      o.help = app.help();
    } catch (const CLI::ParseError& wrong) {
      o.error = kerkis::message(wrong.what(), " (--help lists the flags)");
    }
    return o;
  }
};
