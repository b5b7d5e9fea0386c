// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

#include <kerkis/schedule/communication.hpp>
#include <kerkis/schedule/report.hpp>
#include <kerkis/schedule/table.hpp>

namespace kerkis::schedule {

/// Messages that a rank has under way at a time.
struct Buffers {
  int receives = 0;  ///< posted and not consumed yet
  int sends = 0;     ///< made and not gone yet

  friend constexpr bool operator==(const Buffers&, const Buffers&) = default;
};

/// The most buffers that a rank's hand-offs need at a depth, over all its channels: under the rules of `verify` those
/// posted ahead, and the one that is consumed or posted just now. They do not grow with the number of microbatches
/// unless the depth does. What a computation keeps of a message after it is `live`.
[[nodiscard]] constexpr Buffers buffers(const Communication& communication, int rank, Depth depth) {
  Buffers most;
  const auto add = [](int& sum, int ahead, int size) { sum += size > 0 ? 1 + std::clamp(ahead, 0, size - 1) : 0; };
  for (const Channel& channel : communication.channels()) {
    if (channel.destination == rank) add(most.receives, depth.receives, channel.size);
    if (channel.source == rank) add(most.sends, depth.sends, channel.size);
  }
  return most;
}

}  // namespace kerkis::schedule
