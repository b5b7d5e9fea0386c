// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <kerkis/core/error.hpp>
#include <kerkis/schedule/communication.hpp>
#include <kerkis/schedule/live.hpp>
#include <kerkis/schedule/receives_ahead.hpp>
#include <kerkis/schedule/simulator.hpp>
#include <kerkis/schedule/table.hpp>
#include <kerkis/schedule/verifier.hpp>

namespace kerkis::detail {

/// What one rank does in one pass over the microbatches, worked out from a proven table before the first step: its
/// actions in order, the receives that it posts between them, and the buffer that each of them uses. The buffers of a
/// boundary are numbered from 0, those of activations and those of gradients apart.
struct Program {
  static constexpr int none = -1;

  struct Receive {
    int boundary = 0;
    schedule::Direction direction = schedule::Direction::forward;
    int buffer = 0;
  };
  struct Step {
    schedule::Action action;
    int stage = 0;
    int below = schedule::no_boundary;  ///< of a forward: the boundary of its input,
    int taken = 0;                      ///< and the microbatch that this has come of
    int saved = none;                   ///< which of the chunk's Saved the microbatch has
    int input = none, output = none, input_gradient = none, output_gradient = none;  ///< buffers
    bool receives = false;     ///< what it takes comes from another rank
    bool sends = false;        ///< what it makes goes to another rank
    bool last_weight = false;  ///< the chunk's gradients are complete after it
    bool releases = false;     ///< nothing of the microbatch is needed after it
    std::size_t posted = 0;    ///< so many of `receives` are posted before it computes
  };

  std::vector<Step> steps;
  std::vector<Receive> receives;     ///< in the order in which they are posted
  std::size_t posted_first = 0;      ///< so many of them before the first step
  std::vector<int> buffers;          ///< how many each `row` needs on this rank
  std::vector<schedule::Live> peak;  ///< per chunk: the most microbatches kept at a time
  int microbatches = 0;
  bool trains = false;

  static std::size_t row(int boundary, schedule::Direction direction) {
    return static_cast<std::size_t>(2 * boundary + (direction == schedule::Direction::forward ? 0 : 1));
  }
};

/// Buffers of one kind: which are free, and which of them each microbatch has.
class Lending {
 public:
  explicit Lending(int microbatches) : of_(static_cast<std::size_t>(microbatches), Program::none) {}

  int take(int microbatch) {
    int& mine = of_[static_cast<std::size_t>(microbatch)];
    if (free_.empty()) {
      mine = made_++;
    } else {
      mine = free_.back();
      free_.pop_back();
    }
    return mine;
  }
  /// One of `size` that are used in turn, free or not.
  int take_turn(int size) {
    const int turn = turns_++ % size;
    made_ = std::max(made_, turn + 1);
    return turn;
  }
  int of(int microbatch) const { return of_[static_cast<std::size_t>(microbatch)]; }
  void give_back(int microbatch) { free_.push_back(of(microbatch)); }
  int made() const { return made_; }

 private:
  int made_ = 0, turns_ = 0;
  std::vector<int> free_, of_;
};

class ProgramMaker {
 public:
  ProgramMaker(const schedule::Table& table, int rank, schedule::Depth proven)
      : table_(table), rank_(rank), depth_(proven), communication_(table),
        rows_(static_cast<std::size_t>(2 * table.stages()), Lending(table.microbatches())),
        saved_(static_cast<std::size_t>(table.chunks()), Lending(table.microbatches())) {
    // Besides, no sender should wait for a receive, at least if all computations took the same time.
    const schedule::Times same;
    const schedule::Timeline line = schedule::simulate(table, {&same, 1});
    for (const schedule::Channel& channel : communication_.channels()) {
      if (channel.destination != rank) continue;
      const int ahead = std::max(depth_.receives, schedule::receives_ahead(table, communication_, channel, line));
      incoming_.push_back({channel.first, channel.size, ahead});
    }
  }

  Program make() {
    for (Incoming& incoming : incoming_) post(incoming, incoming.ahead - 1);
    program_.posted_first = program_.receives.size();
    const auto actions = table_.actions(rank_);
    program_.steps.reserve(actions.size());
    for (std::size_t position = 0; position < actions.size(); ++position)
      append(actions[position], communication_.handoff(rank_, static_cast<int>(position)));
    mark_last_weights();
    for (const Lending& row : rows_) program_.buffers.push_back(row.made());
    for (int chunk = 0; chunk < table_.chunks(); ++chunk)
      program_.peak.push_back(schedule::peak_live(table_, rank_, chunk));
    program_.microbatches = table_.microbatches();
    program_.trains = table_.trains();
    return std::move(program_);
  }

 private:
  using Direction = schedule::Direction;

  /// A channel to this rank. MPI matches the messages of a boundary in the order in which they are sent, which may not
  /// be the one in which they are consumed: receives are posted in the order of the sends, so far that all that are to
  /// be consumed next are among them.
  struct Incoming {
    int first, size;   ///< the numbers of its messages
    int ahead;         ///< receives that are posted before what is to be consumed next
    int examined = 0;  ///< places of consumption that `wanted` allows for
    int wanted = 0;    ///< messages to be posted
    int posted = 0;    ///< messages that are
  };

  Lending& lending(int boundary, Direction direction) { return rows_[Program::row(boundary, direction)]; }

  /// Posts what is needed up to a place of consumption.
  void post(Incoming& incoming, int place) {
    for (; incoming.examined <= std::min(place, incoming.size - 1); ++incoming.examined)
      incoming.wanted =
          std::max(incoming.wanted, communication_.consumed(incoming.first + incoming.examined) - incoming.first + 1);
    for (; incoming.posted < incoming.wanted; ++incoming.posted) {
      const schedule::Message& message = communication_.message(incoming.first + incoming.posted);
      const int buffer = lending(message.boundary, message.direction).take(message.microbatch);
      program_.receives.push_back({message.boundary, message.direction, buffer});
    }
  }

  /// Where a stage puts what it makes: if the neighbour is on this rank, straight to where that takes it; else in one
  /// of as many buffers as sends may be under way in the proof, and two more, so that the next message can be made
  /// while the last is on its way.
  int place(int boundary, Direction direction, int neighbour, int microbatch) {
    Lending& row = lending(boundary, direction);
    if (table_.rank_of(neighbour) == rank_) return row.take(microbatch);
    return row.take_turn(std::min(depth_.sends, table_.microbatches()) + 2);
  }

  void append(const schedule::Action& action, const schedule::Handoff& handoff) {
    const schedule::KindTraits& kind = schedule::traits(action.kind);
    const int m = action.microbatch;
    Program::Step step{.action = action, .stage = table_.stage(rank_, action.chunk)};
    if (kind.computes()) {
      const schedule::Message below = schedule::forward_input(table_, step.stage, m);
      const bool has_below = below.boundary >= 0;
      const bool has_above = schedule::forward_output(table_, step.stage, m).boundary >= 0;
      step.below = below.boundary;
      step.taken = below.microbatch;
      Lending& saved = saved_[static_cast<std::size_t>(action.chunk)];
      step.saved = kind.forward ? saved.take(m) : saved.of(m);
      step.receives = handoff.input != schedule::no_message;
      step.sends = handoff.output != schedule::no_message;
      step.releases = kind.weight_gradient || !table_.trains();
      if (has_below) step.input = lending(step.below, Direction::forward).of(step.taken);
      if (kind.input_gradient && has_above) step.output_gradient = lending(step.stage, Direction::backward).of(m);
      if (step.receives)
        for (Incoming& incoming : incoming_)
          if (handoff.place >= incoming.first && handoff.place < incoming.first + incoming.size)
            post(incoming, handoff.place - incoming.first + incoming.ahead);

      if (kind.forward && has_above)
        step.output = place(step.stage, Direction::forward, (step.stage + 1) % table_.stages(), m);
      if (kind.input_gradient && has_below)
        step.input_gradient = place(step.stage - 1, Direction::backward, step.stage - 1, m);
      if (step.output_gradient != Program::none) lending(step.stage, Direction::backward).give_back(m);
      if (step.releases && has_below) lending(step.below, Direction::forward).give_back(step.taken);
      if (step.releases) saved.give_back(m);
    }
    step.posted = program_.receives.size();
    program_.steps.push_back(step);
  }

  void mark_last_weights() {
    std::vector<bool> seen(static_cast<std::size_t>(table_.chunks()), false);
    for (auto step = program_.steps.rbegin(); step != program_.steps.rend(); ++step) {
      const auto chunk = static_cast<std::size_t>(step->action.chunk);
      if (!schedule::computes_weight_gradient(step->action.kind) || seen[chunk]) continue;
      step->last_weight = seen[chunk] = true;
    }
  }

  const schedule::Table& table_;
  int rank_;
  schedule::Depth depth_;
  schedule::Communication communication_;
  std::vector<Lending> rows_, saved_;
  std::vector<Incoming> incoming_;
  Program program_;
};

/// The program of `rank` for a table. Throws InputError if the verifier rejects it.
inline Program make_program(const schedule::Table& table, int rank) {
  const schedule::Report report = schedule::verify(table);
  require(report.ok(), "the pipeline schedule can't run: ", schedule::explain(report));
  return ProgramMaker(table, rank, report.depth).make();
}

}  // namespace kerkis::detail
