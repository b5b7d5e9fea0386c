// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

/// Pipeline schedules as constexpr data: needs neither MPI nor Kokkos.
namespace kerkis::schedule {

/// What a rank does for one of its chunks of layers, and for one microbatch if it computes. The two halves of a
/// backward alone are those of zero-bubble schedules (Qi et al. 2024, arXiv:2401.10241).
enum class ActionKind : unsigned char {
  forward,         ///< activations
  backward,        ///< both halves as one block: the simulator lets its gradient leave when the block ends
  backward_input,  ///< the gradient of the input
  backward_weight  ///< the gradients of the parameters
};

/// What is known of a kind; everything that reads tables asks here. The set is open: a new kind is a line in the
/// enumeration and one in `kind_traits`. One that computes nothing of the three belongs to no microbatch: it has no
/// messages, may stand anywhere in a list and any number of times, and what else must hold for it is for `verify` to
/// say.
struct KindTraits {
  std::string_view name = "unknown";  ///< in reports and traces
  char letter = '?';                  ///< in schedule files
  bool forward = false;               ///< computes a forward
  bool input_gradient = false;        ///< computes the gradient of the input
  bool weight_gradient = false;       ///< computes the gradients of the parameters

  /// Whether it computes one of the three.
  [[nodiscard]] constexpr bool computes() const noexcept { return forward || input_gradient || weight_gradient; }
};

/// By ActionKind.
inline constexpr KindTraits kind_traits[] = {
    {"forward", 'F', true, false, false},
    {"backward", 'B', false, true, true},
    {"backward_input", 'I', false, true, false},
    {"backward_weight", 'W', false, false, true},
};
/// Of a kind that is not in the list.
inline constexpr KindTraits unknown_kind;

/// Whether it is in the list.
[[nodiscard]] constexpr bool known(ActionKind kind) noexcept {
  return static_cast<std::size_t>(kind) < std::size(kind_traits);
}

/// What is known of `kind`.
[[nodiscard]] constexpr const KindTraits& traits(ActionKind kind) noexcept {
  return known(kind) ? kind_traits[static_cast<std::size_t>(kind)] : unknown_kind;
}

/// Whether it computes a forward.
[[nodiscard]] constexpr bool computes_forward(ActionKind kind) noexcept { return traits(kind).forward; }
/// Whether it computes the gradient of the input.
[[nodiscard]] constexpr bool computes_input_gradient(ActionKind kind) noexcept { return traits(kind).input_gradient; }
/// Whether it computes the gradients of the parameters.
[[nodiscard]] constexpr bool computes_weight_gradient(ActionKind kind) noexcept { return traits(kind).weight_gradient; }
/// Its name.
[[nodiscard]] constexpr std::string_view to_string(ActionKind kind) noexcept { return traits(kind).name; }

/// One entry of a rank's list.
struct Action {
  ActionKind kind = ActionKind::forward;  ///< what is done
  int microbatch = 0;                     ///< for which one, from 0
  int chunk = 0;                          ///< for which chunk of the rank, from 0

  friend constexpr bool operator==(const Action&, const Action&) = default;
};

/// The pipeline has ranks * chunks stages; every microbatch passes through all of them.
struct PipelineShape {
  int ranks = 1;         ///< of the pipeline
  int microbatches = 1;  ///< of one pass
  int chunks = 1;        ///< per rank

  /// Those of all ranks.
  [[nodiscard]] constexpr int stages() const noexcept { return ranks * chunks; }

  friend constexpr bool operator==(const PipelineShape&, const PipelineShape&) = default;
};

/// What one rank does, in order. A schedule's `order` function appends to it.
class ActionList {
 public:
  /// Appends a forward.
  constexpr void forward(int microbatch, int chunk = 0) { append({ActionKind::forward, microbatch, chunk}); }
  /// Appends a backward, both halves as one block.
  constexpr void backward(int microbatch, int chunk = 0) { append({ActionKind::backward, microbatch, chunk}); }
  /// Appends the half that gives the gradient of the input.
  constexpr void backward_input(int microbatch, int chunk = 0) {
    append({ActionKind::backward_input, microbatch, chunk});
  }
  /// Appends the half that gives the gradients of the parameters.
  constexpr void backward_weight(int microbatch, int chunk = 0) {
    append({ActionKind::backward_weight, microbatch, chunk});
  }
  /// Appends an action of any kind.
  constexpr void append(Action action) { actions_.push_back(action); }
  /// Makes room for so many actions in all.
  constexpr void reserve(std::size_t actions) { actions_.reserve(actions); }

  /// Valid until the list changes.
  [[nodiscard]] constexpr std::span<const Action> actions() const noexcept { return actions_; }

 private:
  std::vector<Action> actions_;
};

/// A number of chunks that the shape gives, not the schedule's type.
inline constexpr int chunks_of_shape = 0;

/// A schedule is a type with a name and an order of actions, either of every rank by itself (`order`) or of all ranks
/// at once (`orders`, where the list of one follows from those of others). It may also say
///   static constexpr int chunks                                     chunks per rank (otherwise, or if it is
///                                                                   chunks_of_shape, the shape's),
///   static constexpr int stage(PipelineShape, int rank, int chunk)  which stage a chunk is
///                                                                   (otherwise looped: chunk * ranks + rank),
///   static constexpr bool trains                                    false: forward passes only, and
///   static constexpr std::string_view refusal(PipelineShape)        why it can't do this shape; empty: it can.
template <class S>
concept Schedule = requires {
  { S::name } -> std::convertible_to<std::string_view>;
} && (requires(PipelineShape shape, int rank, ActionList& list) { S::order(shape, rank, list); } ||
      requires(PipelineShape shape, std::span<ActionList> lists) { S::orders(shape, lists); });

}  // namespace kerkis::schedule

namespace kerkis {
using schedule::ActionList;
using schedule::PipelineShape;
}  // namespace kerkis
