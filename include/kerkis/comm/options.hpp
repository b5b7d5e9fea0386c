// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <optional>

#include <kerkis/comm/wait_policy.hpp>

namespace kerkis {

/// How a root communicator and all that are made from it work. Equal on all ranks.
struct CommunicatorOptions {
  WaitPolicy wait{};
  /// Elements that one MPI call moves at most; longer Views go in pieces. MPI-3 counts are ints.
  std::size_t largest_count = std::numeric_limits<int>::max();
};

}  // namespace kerkis
