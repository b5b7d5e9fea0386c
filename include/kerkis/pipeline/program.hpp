// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include <kerkis/core/error.hpp>
#include <kerkis/schedule/communication.hpp>
#include <kerkis/schedule/live.hpp>
#include <kerkis/schedule/table.hpp>
#include <kerkis/schedule/verifier.hpp>

namespace kerkis::detail {

/// What one rank does in one pass over the microbatches, worked out from a proven table before the first step.
struct Program {
  /// A computation with the hand-offs before and after it.
  struct Step {
    schedule::Action action;
    std::optional<schedule::Message> input, output;
    bool last_weight = false;  ///< the chunk's gradients are complete after it
    bool releases = false;     ///< nothing of the microbatch is needed after it
    std::size_t channel = 0;   ///< of the input
  };
  /// The messages of one peer and direction, in the order in which this rank consumes them.
  struct Channel {
    int peer;
    schedule::Direction direction;
    std::vector<std::pair<schedule::Message, int>> messages;  ///< and the chunk that takes each
  };

  std::vector<Step> steps;
  std::vector<Channel> channels;
  std::vector<int> live;  ///< per chunk: the most microbatches kept at a time
  schedule::Depth depth;
  int microbatches = 0;

  /// Training: a table that the verifier has passed at `depth`. `forward_only`: each microbatch is released by its
  /// forward.
  Program(const schedule::Table& table, int rank, schedule::Depth proven, bool forward_only)
      : depth(proven), microbatches(table.microbatches()) {
    depth.receives = std::max(1, depth.receives);
    const auto chunks = static_cast<std::size_t>(table.chunks());
    std::vector<Step*> last(chunks, nullptr);
    const schedule::Communication communication(table);
    steps.reserve(table.actions(rank).size());
    for (const schedule::Action& action : table.actions(rank)) {
      const schedule::Handoff& handoff = communication.handoff(rank, static_cast<int>(steps.size()));
      const bool completes = schedule::computes_weight_gradient(action.kind);
      Step step{action, std::nullopt, std::nullopt, false, completes || forward_only, 0};
      if (handoff.output != schedule::no_message) step.output = communication.message(handoff.output);
      if (handoff.input != schedule::no_message) {
        step.input = communication.message(handoff.input);
        step.channel = consume(communication.channel(handoff.input).source, *step.input, action.chunk);
      }
      steps.push_back(step);
      if (completes) last[static_cast<std::size_t>(action.chunk)] = &steps.back();
    }
    for (Step* step : last)
      if (step != nullptr) step->last_weight = true;
    for (int chunk = 0; chunk < table.chunks(); ++chunk)
      live.push_back(forward_only ? 1 : schedule::peak_live(table, rank, chunk).until_weight);
  }

 private:
  std::size_t consume(int peer, const schedule::Message& message, int chunk) {
    std::size_t c = 0;
    while (c < channels.size() && (channels[c].peer != peer || channels[c].direction != message.direction)) ++c;
    if (c == channels.size()) channels.push_back({peer, message.direction, {}});
    channels[c].messages.emplace_back(message, chunk);
    return c;
  }
};

/// The program of `rank` for training by a table. Throws InputError if the verifier rejects it.
inline Program training_program(const schedule::Table& table, int rank) {
  const schedule::Report report = schedule::verify(table);
  require(report.ok(), "the pipeline schedule can't run: ", schedule::explain(report));
  return Program(table, rank, report.depth, false);
}

/// The program of `rank` for forward passes only, over the same placement of stages: chunk by chunk, in groups of as
/// many microbatches as there are ranks. Every hand-off waits for earlier ones only, so it cannot deadlock while sends
/// are buffered.
inline Program evaluation_program(const schedule::Table& training, int rank, int microbatches) {
  const schedule::PipelineShape shape{training.ranks(), microbatches, training.chunks()};
  std::vector<schedule::ActionList> lists(static_cast<std::size_t>(shape.ranks));
  std::vector<int> stages;
  for (int r = 0; r < shape.ranks; ++r) {
    for (int chunk = 0; chunk < shape.chunks; ++chunk) stages.push_back(training.stage(r, chunk));
    for (int first = 0; first < microbatches; first += shape.ranks)
      for (int chunk = 0; chunk < shape.chunks; ++chunk)
        for (int m = first; m < std::min(first + shape.ranks, microbatches); ++m)
          lists[static_cast<std::size_t>(r)].forward(m, chunk);
  }
  return Program(schedule::Table(shape, std::move(lists), std::move(stages)), rank, {1, microbatches * shape.chunks},
                 true);
}

}  // namespace kerkis::detail
