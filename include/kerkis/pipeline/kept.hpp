// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <kerkis/schedule/live.hpp>

namespace kerkis::detail {

struct NothingSaved {};

template <class Stage>
struct SavedOf {
  using type = NothingSaved;
};
template <class Stage>
  requires requires { typename Stage::Saved; }
struct SavedOf<Stage> {
  using type = typename Stage::Saved;
};

template <class Saved>
struct SavedParts {  // all of it is kept until backward_weight
  using Input = NothingSaved;
  static Input take(Saved&) { return {}; }
  static void put(Saved&, Input&&) {}
};
template <class Saved>
  requires requires(Saved& saved) {
    saved.input;
    saved.weight;
  }
struct SavedParts<Saved> {
  using Input = decltype(Saved::input);
  static Input take(Saved& saved) { return std::exchange(saved.input, Input()); }
  static void put(Saved& saved, Input&& input) { saved.input = std::move(input); }
};

/// A vector that grows moves its elements, even if that may throw (as moving a View does in Kokkos 4.6 with CUDA): what
/// is saved need not be copyable.
template <class T>
struct MoveOnly {
  explicit MoveOnly(T&& value) : its(std::move(value)) {}
  MoveOnly(MoveOnly&&) = default;
  MoveOnly& operator=(MoveOnly&&) = default;
  T its;
};

/// What the microbatches of one stage keep, as many as the schedule's table needs at a time: a Saved until
/// backward_weight, its part `input` until backward_input; then that part is the next microbatch's.
template <class Saved>
class KeptByStage {
  using Parts = SavedParts<Saved>;

 public:
  /// Makes as many as `peak` says, if there are fewer. Not during a pass.
  template <class Make>
  void reserve(schedule::Live peak, Make&& make) {
    const auto inputs = static_cast<std::size_t>(peak.until_input), slots = static_cast<std::size_t>(peak.until_weight);
    while (slots_.size() < slots || inputs_.size() < inputs) {
      Slot slot{MoveOnly<Saved>(make())};
      typename Parts::Input input = Parts::take(slot.saved.its);
      if (inputs_.size() < inputs) inputs_.emplace_back(std::move(input));
      if (slots_.size() < slots) slots_.push_back(std::move(slot));
    }
  }

  /// For a forward.
  Saved& take(int slot) {
    Slot& taken = at(slot);
    Parts::put(taken.saved.its, std::move(inputs_.back().its));
    inputs_.pop_back();
    taken.has_input = true;
    return taken.saved.its;
  }
  Saved& of(int slot) { return at(slot).saved.its; }
  void release_input(int slot) {
    inputs_.emplace_back(Parts::take(at(slot).saved.its));
    at(slot).has_input = false;
  }
  /// After a pass that was cut short.
  void reset() {
    for (std::size_t slot = 0; slot < slots_.size(); ++slot)
      if (slots_[slot].has_input) release_input(static_cast<int>(slot));
  }

 private:
  struct Slot {
    MoveOnly<Saved> saved;
    bool has_input = false;
  };
  Slot& at(int slot) { return slots_[static_cast<std::size_t>(slot)]; }

  std::vector<Slot> slots_;
  std::vector<MoveOnly<typename Parts::Input>> inputs_;  ///< those that no microbatch has
};

/// How many microbatches are kept during a pass, and the most that were: of each chunk, and behind these of all.
class LiveCount {
 public:
  explicit LiveCount(std::size_t chunks) : now_(chunks + 1), peak_(chunks + 1) {}

  void reset() {
    std::fill(now_.begin(), now_.end(), schedule::Live{});
    std::fill(peak_.begin(), peak_.end(), schedule::Live{});
  }
  void add(std::size_t chunk, int inputs, int weights) {
    for (const std::size_t of : {chunk, now_.size() - 1}) {
      now_[of].until_input += inputs;
      now_[of].until_weight += weights;
      peak_[of].until_input = std::max(peak_[of].until_input, now_[of].until_input);
      peak_[of].until_weight = std::max(peak_[of].until_weight, now_[of].until_weight);
    }
  }
  const std::vector<schedule::Live>& peak() const { return peak_; }

 private:
  std::vector<schedule::Live> now_, peak_;
};

}  // namespace kerkis::detail
