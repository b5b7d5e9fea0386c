// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include <kerkis/schedule/detail/array.hpp>
#include <kerkis/schedule/detail/v_placement.hpp>

namespace kerkis::schedule::detail {

/// A building block of Qi et al. 2024, "Pipeline Parallelism with Controllable Memory", arXiv:2405.15362: when a
/// microbatch passes each rank, in units of one computation of one chunk. The next microbatch follows six units later
/// (forward, backward_input, backward_weight of two chunks): the four times of each rank must differ modulo 6. What a
/// rank keeps alive is the time between its forwards and backwards, over twelve.
struct VPattern {
  int down;           ///< from rank to rank in the forward of chunk 0 and the backward_input of chunk 1
  int up;             ///< and in the forward of chunk 1 and the backward_input of chunk 0
  int forward_turn;   ///< on the last rank, from the forward of chunk 0 to that of chunk 1
  int loss_turn;      ///< on the first rank, from the forward of chunk 1 to its backward_input
  int backward_turn;  ///< on the last rank, from the backward_input of chunk 1 to that of chunk 0
};

/// One rank's forwards and backward_inputs in the order of the repeated pattern.
class VOrder {
 public:
  constexpr VOrder() = default;
  constexpr VOrder(const VPattern& p, PipelineShape shape, int rank) : microbatches_(shape.microbatches) {
    const int last = shape.ranks - 1;
    times_[0] = p.down * rank;
    times_[1] = p.down * last + p.forward_turn + p.up * (last - rank);
    times_[2] = (p.down + p.up) * last + p.forward_turn + p.loss_turn + p.down * rank;
    times_[3] = (2 * p.down + p.up) * last + p.forward_turn + p.loss_turn + p.backward_turn + p.up * (last - rank);
    seek();
  }

  [[nodiscard]] constexpr bool finished() const { return which_ == 4; }
  [[nodiscard]] constexpr Action next() const {
    return {kinds[which_], (time_ - times_[which_]) / period, chunks[which_]};
  }
  constexpr void advance() {
    ++time_;
    seek();
  }

 private:
  static constexpr int period = 6;
  static constexpr ActionKind kinds[] = {ActionKind::forward, ActionKind::forward, ActionKind::backward_input,
                                         ActionKind::backward_input};
  static constexpr int chunks[] = {0, 1, 1, 0};

  constexpr void seek() {
    for (; time_ <= times_[3] + period * (microbatches_ - 1); ++time_) {
      for (which_ = 0; which_ < 4; ++which_) {
        const int since = time_ - times_[which_];
        if (since >= 0 && since % period == 0 && since / period < microbatches_) return;
      }
    }
    which_ = 4;
  }

  int microbatches_ = 0;
  int times_[4] = {};  // of microbatch 0
  int time_ = 0;
  int which_ = 4;
};

/// Squeezes the repeated pattern: each rank works its forwards and backward_inputs in the pattern's order as soon as
/// they can run, all of them one unit long. A backward_weight fills each unit that would stay empty, and makes room
/// where a forward would have more than `most` (microbatch, chunk)s alive. This always ends if the pattern itself keeps
/// no more than `most` alive with each backward_weight in a unit of its own: its own order is then never stuck.
constexpr void order_v(PipelineShape shape, const VPattern& pattern, int most, std::span<ActionList> lists) {
  struct Rank {
    VOrder order;
    int live = 0;
    int inputs = 0, weights = 0;  // how many are behind
  };
  const int stages = 2 * shape.ranks;
  Array<Rank> ranks(shape.ranks);
  Array<int> forward_ends(stages * shape.microbatches);  // 0: not yet
  Array<int> input_ends(stages * shape.microbatches);
  Array<Action> inputs(stages * shape.microbatches);  // of each rank, in their order
  for (int rank = 0; rank < shape.ranks; ++rank) ranks[rank].order = VOrder(pattern, shape, rank);

  int now = 0;
  const auto past = [&](int end) { return end != 0 && end <= now; };
  const auto work = [&](int rank) {  // one unit; says whether there is more
    Rank& me = ranks[rank];
    ActionList& list = lists[static_cast<std::size_t>(rank)];
    Action* const mine = &inputs[2 * rank * shape.microbatches];
    if (!me.order.finished()) {
      const Action action = me.order.next();
      const int stage = VPlacement::stage(shape, rank, action.chunk);
      const int place = stage * shape.microbatches + action.microbatch;
      if (action.kind == ActionKind::forward) {
        if (me.live < most && (stage == 0 || past(forward_ends[place - shape.microbatches]))) {
          forward_ends[place] = now + 1;
          ++me.live;
          list.append(action);
          me.order.advance();
          return true;
        }
      } else if (stage == stages - 1 || past(input_ends[place + shape.microbatches])) {
        input_ends[place] = now + 1;
        mine[me.inputs++] = action;
        list.append(action);
        me.order.advance();
        return true;
      }
    }
    if (me.weights < me.inputs) {
      const Action& input = mine[me.weights++];
      list.backward_weight(input.microbatch, input.chunk);
      --me.live;
    }
    return !me.order.finished() || me.weights < me.inputs;
  };
  for (bool more = shape.microbatches > 0; more; ++now) {
    more = false;
    for (int rank = 0; rank < shape.ranks; ++rank) more |= work(rank);
  }
}

}  // namespace kerkis::schedule::detail
