// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

/// Pipeline schedules as constexpr data: needs neither MPI nor Kokkos.
namespace kerkis::schedule {

/// What a rank computes for one microbatch and one of its chunks of layers. `backward` is both halves as one block: the
/// simulator lets its gradient leave when the block ends. The two halves alone are those of zero-bubble schedules (Qi
/// et al. 2024, arXiv:2401.10241): backward_input gives the gradient of the input, backward_weight the parameters'.
enum class ActionKind : unsigned char { forward, backward, backward_input, backward_weight };

[[nodiscard]] constexpr bool computes_input_gradient(ActionKind kind) noexcept {
  return kind == ActionKind::backward || kind == ActionKind::backward_input;
}

[[nodiscard]] constexpr bool computes_weight_gradient(ActionKind kind) noexcept {
  return kind == ActionKind::backward || kind == ActionKind::backward_weight;
}

[[nodiscard]] constexpr std::string_view to_string(ActionKind kind) noexcept {
  switch (kind) {
  case ActionKind::forward:
    return "forward";
  case ActionKind::backward:
    return "backward";
  case ActionKind::backward_input:
    return "backward_input";
  case ActionKind::backward_weight:
    return "backward_weight";
  }
  return "unknown";
}

/// `microbatch` counts from 0, `chunk` from 0 within the rank.
struct Action {
  ActionKind kind = ActionKind::forward;
  int microbatch = 0;
  int chunk = 0;

  friend constexpr bool operator==(const Action&, const Action&) = default;
};

/// The pipeline has ranks * chunks stages; every microbatch passes through all of them.
struct PipelineShape {
  int ranks = 1;
  int microbatches = 1;
  int chunks = 1;

  [[nodiscard]] constexpr int stages() const noexcept { return ranks * chunks; }

  friend constexpr bool operator==(const PipelineShape&, const PipelineShape&) = default;
};

/// What one rank does, in order. A schedule's `order` function appends to it.
class ActionList {
 public:
  constexpr void forward(int microbatch, int chunk = 0) { append({ActionKind::forward, microbatch, chunk}); }
  constexpr void backward(int microbatch, int chunk = 0) { append({ActionKind::backward, microbatch, chunk}); }
  constexpr void backward_input(int microbatch, int chunk = 0) {
    append({ActionKind::backward_input, microbatch, chunk});
  }
  constexpr void backward_weight(int microbatch, int chunk = 0) {
    append({ActionKind::backward_weight, microbatch, chunk});
  }
  constexpr void append(Action action) { actions_.push_back(action); }
  constexpr void reserve(std::size_t actions) { actions_.reserve(actions); }

  [[nodiscard]] constexpr std::span<const Action> actions() const noexcept { return actions_; }

 private:
  std::vector<Action> actions_;
};

/// A schedule is a type with a name and an order of actions for every rank. It may also say
///   static constexpr int chunks                                     chunks per rank (otherwise the shape's), and
///   static constexpr int stage(PipelineShape, int rank, int chunk)  which stage a chunk is
///                                                                   (otherwise looped: chunk * ranks + rank).
template <class S>
concept Schedule = requires(PipelineShape shape, int rank, ActionList& list) {
  { S::name } -> std::convertible_to<std::string_view>;
  S::order(shape, rank, list);
};

}  // namespace kerkis::schedule

namespace kerkis {
using schedule::ActionList;
using schedule::PipelineShape;
}  // namespace kerkis
