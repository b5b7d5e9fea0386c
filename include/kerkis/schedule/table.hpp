// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <kerkis/core/error.hpp>
#include <kerkis/schedule/action.hpp>

namespace kerkis::schedule {

/// What a table is complete for.
enum class Purpose : unsigned char {
  training,  ///< forward and backward of every microbatch
  inference  ///< forward alone
};

/// The global table of a schedule: every rank's list of actions, and which stage each (rank, chunk) is. Every rank's
/// work and all communication follow from it. A Table may hold nonsense: `verify` judges it; everything else asks for
/// ranks, chunks and stages in range.
class Table {
 public:
  /// lists: one per rank. stages: that of (rank, chunk) at rank * shape.chunks + chunk; empty: looped placement.
  /// feedback: see the function of that name.
  constexpr Table(PipelineShape shape, std::vector<ActionList> lists, std::vector<int> stages = {},
                  Purpose purpose = Purpose::training, int feedback = 0)
      : shape_(shape), purpose_(purpose), feedback_(feedback), lists_(std::move(lists)), stages_(std::move(stages)) {
    if (stages_.empty()) {
      stages_.reserve(lists_.size());
      for (int rank = 0; rank < shape.ranks; ++rank) {
        for (int chunk = 0; chunk < shape.chunks; ++chunk) stages_.push_back(chunk * shape.ranks + rank);
      }
    }
    slots_.assign(stages_.size(), -1);
    for (std::size_t slot = 0; slot < stages_.size(); ++slot) {
      const int stage = stages_[slot];
      if (stage >= 0 && stage < shape.stages() && index(stage) < slots_.size()) {
        slots_[index(stage)] = static_cast<int>(slot);
      }
    }
  }

  /// Its ranks, microbatches and chunks.
  [[nodiscard]] constexpr PipelineShape shape() const noexcept { return shape_; }
  /// What it is complete for.
  [[nodiscard]] constexpr Purpose purpose() const noexcept { return purpose_; }
  /// Whether that is training.
  [[nodiscard]] constexpr bool trains() const noexcept { return purpose_ == Purpose::training; }
  /// The first stage computes a microbatch from what the last stage has made of the one that came so many before it, as
  /// generation does: the first so many microbatches begin. 0: nothing is fed back. For inference only.
  [[nodiscard]] constexpr int feedback() const noexcept { return feedback_; }
  /// Of the pipeline.
  [[nodiscard]] constexpr int ranks() const noexcept { return shape_.ranks; }
  /// Of one pass.
  [[nodiscard]] constexpr int microbatches() const noexcept { return shape_.microbatches; }
  /// Per rank.
  [[nodiscard]] constexpr int chunks() const noexcept { return shape_.chunks; }
  /// Of all ranks.
  [[nodiscard]] constexpr int stages() const noexcept { return shape_.stages(); }

  /// The list of a rank.
  [[nodiscard]] constexpr std::span<const Action> actions(int rank) const { return lists_[index(rank)].actions(); }

  /// Which stage a chunk is.
  [[nodiscard]] constexpr int stage(int rank, int chunk) const { return stages_[index(rank * shape_.chunks + chunk)]; }
  /// The rank that has a stage.
  [[nodiscard]] constexpr int rank_of(int stage) const { return slots_[index(stage)] / shape_.chunks; }
  /// Which chunk of that rank it is.
  [[nodiscard]] constexpr int chunk_of(int stage) const { return slots_[index(stage)] % shape_.chunks; }

  /// Whether no extent is below 1, there is one list per rank, every stage is exactly one (rank, chunk), and nothing is
  /// fed back in training.
  [[nodiscard]] constexpr bool well_formed() const { return misfit().what.empty(); }

  /// What does not fit together.
  struct Misfit {
    std::string_view what;  ///< in words; "" if all fits
    int stage = -1;         ///< the one at fault; -1: none
  };
  /// The first that is not as `well_formed` says.
  [[nodiscard]] constexpr Misfit misfit() const {
    if (shape_.ranks < 1 || shape_.microbatches < 1 || shape_.chunks < 1) return {"an extent is below 1"};
    if (feedback_ < 0) return {"its feedback is below 0"};
    if (feedback_ > 0 && trains()) return {"it feeds back in training"};
    if (lists_.size() != index(shape_.ranks)) return {"it has not one list per rank"};
    if (stages_.size() != index(shape_.stages())) return {"it has not one stage per chunk of each rank"};
    for (std::size_t stage = 0; stage < slots_.size(); ++stage) {
      if (slots_[stage] < 0) return {"no chunk of any rank is stage", static_cast<int>(stage)};
    }
    return {};
  }

 private:
  static constexpr std::size_t index(int value) noexcept { return static_cast<std::size_t>(value); }

  PipelineShape shape_;
  Purpose purpose_;
  int feedback_;
  std::vector<ActionList> lists_;
  std::vector<int> stages_;
  std::vector<int> slots_;  // of a stage: rank * chunks + chunk, or -1
};

/// The shape with the schedule's own number of chunks, if it fixes one.
template <Schedule S>
[[nodiscard]] constexpr PipelineShape shape_for(PipelineShape shape) noexcept {
  if constexpr (requires { S::chunks; }) {
    if (S::chunks != chunks_of_shape) shape.chunks = S::chunks;
  }
  return shape;
}

/// `shape_for` numbers that a user gave: 1 chunk means that the user said nothing. Throws InputError for an extent
/// below 1, or chunks that are not the schedule's.
template <Schedule S>
[[nodiscard]] constexpr PipelineShape checked_shape(PipelineShape shape) {
  require(shape.ranks >= 1 && shape.microbatches >= 1 && shape.chunks >= 1, "a pipeline of ", shape.ranks, " ranks, ",
          shape.microbatches, " microbatches and ", shape.chunks, " chunks per rank: each must be 1 or more");
  const PipelineShape its = shape_for<S>(shape);
  require(shape.chunks == 1 || shape.chunks == its.chunks, "the schedule ", std::string_view(S::name), " has ",
          its.chunks, its.chunks == 1 ? " chunk" : " chunks", " per rank, not ", shape.chunks);
  return its;
}

/// Why the schedule can't do a shape, empty if it can. Extents below 1 are for `verify` to refuse.
template <Schedule S>
[[nodiscard]] constexpr std::string_view refusal([[maybe_unused]] PipelineShape shape) {
  if constexpr (requires { S::refusal(shape); }) return S::refusal(shape_for<S>(shape));
  return {};
}

/// Which stage each (rank, chunk) is, as a Table takes it.
template <Schedule S>
[[nodiscard]] constexpr std::vector<int> stages_of([[maybe_unused]] PipelineShape shape) {
  std::vector<int> stages;
  if constexpr (requires { S::stage(shape, 0, 0); }) {
    for (int rank = 0; rank < shape.ranks; ++rank) {
      for (int chunk = 0; chunk < shape.chunks; ++chunk) stages.push_back(S::stage(shape, rank, chunk));
    }
  }
  return stages;
}

/// The table of a schedule. Throws InputError with the reason if the schedule refuses the shape.
template <Schedule S>
[[nodiscard]] constexpr Table make_table(PipelineShape shape) {
  shape = shape_for<S>(shape);
  if (const std::string_view reason = refusal<S>(shape); !reason.empty()) {
    throw InputError(message("the schedule ", std::string_view(S::name), " can't do ", shape.ranks, " ranks, ",
                             shape.microbatches, " microbatches and ", shape.chunks, " chunks: ", reason));
  }
  std::vector<ActionList> lists(static_cast<std::size_t>(std::max(shape.ranks, 0)));
  if constexpr (requires { S::orders(shape, std::span<ActionList>(lists)); }) {
    S::orders(shape, std::span<ActionList>(lists));
  } else {
    for (int rank = 0; rank < shape.ranks; ++rank) {
      ActionList& list = lists[static_cast<std::size_t>(rank)];
      list.reserve(2 * static_cast<std::size_t>(std::max(shape.microbatches, 0)));
      S::order(shape, rank, list);
    }
  }
  Purpose purpose = Purpose::training;
  if constexpr (requires { S::trains; }) purpose = S::trains ? Purpose::training : Purpose::inference;
  return Table(shape, std::move(lists), stages_of<S>(shape), purpose);
}

}  // namespace kerkis::schedule
