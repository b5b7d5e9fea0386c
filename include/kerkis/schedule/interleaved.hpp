// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <string_view>

#include <kerkis/schedule/action.hpp>

namespace kerkis {

/// Interleaved 1F1B: Narayanan et al. 2021, arXiv:2104.04473, section 2.2, in the order of Megatron-LM. Each rank has
/// several looped chunks, and microbatches pass them in groups: all of a group pass a chunk before they come back for
/// the next. Divides the bubble of 1F1B by the number of chunks. The first rank keeps at most
/// ranks (1 + (ranks - 1) / (ranks chunks)) microbatches of a whole stage alive if groups are of `ranks`. One chunk:
/// 1F1B.
///
/// The regular order needs whole groups; it is made for as many as there are, rounded up, and absent microbatches are
/// left out. `per_rank`: chunks; left open, the shape's. `per_group`: microbatches, `ranks` if left open; larger
/// ones keep more alive and leave more time to messages that come round.
template <int per_rank = schedule::chunks_of_shape, int per_group = 0>
struct Interleaved {
  static_assert(per_rank >= 0, "kerkis: Interleaved needs at least one chunk per rank");
  static_assert(per_group >= 0, "kerkis: Interleaved needs at least one microbatch per group");
  static constexpr std::string_view name = "interleaved";
  static constexpr int chunks = per_rank;

  /// Why it can't do a shape: groups of fewer microbatches than there are ranks. Empty if it can.
  static constexpr std::string_view refusal(PipelineShape shape) {
    if (per_group != 0 && per_group < shape.ranks && shape.chunks > 1) {
      return "groups of fewer microbatches than there are ranks deadlock";
    }
    return {};
  }

  static constexpr void order(PipelineShape shape, int rank, ActionList& list) {
    const int group = per_group == 0 ? shape.ranks : per_group;
    const int round = group * shape.chunks;  // computations of one group, in one direction
    const int total = (shape.microbatches + group - 1) / group * round;
    const auto put = [&](ActionKind kind, int k) {
      const int m = k / round * group + k % group;
      const int chunk = k % round / group;
      if (m >= shape.microbatches) return;
      list.append({kind, m, kind == ActionKind::forward ? chunk : shape.chunks - 1 - chunk});
    };

    const int below = shape.ranks - 1 - rank;
    const int warmup = std::min(total, shape.chunks == 1 ? below : 2 * below + (shape.chunks - 1) * group);
    for (int k = 0; k < warmup; ++k) put(ActionKind::forward, k);
    for (int k = warmup; k < total; ++k) {
      put(ActionKind::forward, k);
      put(ActionKind::backward, k - warmup);
    }
    for (int k = total - warmup; k < total; ++k) put(ActionKind::backward, k);
  }

 private:
  using ActionKind = schedule::ActionKind;
};

}  // namespace kerkis
