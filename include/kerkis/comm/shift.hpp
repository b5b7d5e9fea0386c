// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <source_location>
#include <type_traits>

#include <kerkis/comm/exchange.hpp>

namespace kerkis {

/// Of `shift`. What holds for every operation (buffers, order, progress, failure) is in docs/contract.md.
struct ShiftOptions {
  int by = 1;          ///< ranks upwards; negative: downwards
  bool around = true;  ///< the last rank's next is the first; else nothing leaves at the ends and nothing comes in
  int tag = 0;         ///< as in SendOptions
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};

namespace comm {

/// A shift as an exchange.
inline ExchangeOptions neighbours(const Communicator& communicator, const ShiftOptions& options) {
  const auto neighbour = [&](long long distance) {
    const long long size = communicator.size(), place = communicator.rank() + distance;
    if (!options.around && (place < 0 || place >= size)) return no_rank;
    return static_cast<int>((place % size + size) % size);
  };
  return {.to = neighbour(options.by),
          .from = neighbour(-static_cast<long long>(options.by)),
          .tag = options.tag,
          .deadline = options.deadline};
}

}  // namespace comm

/// Moves `send` of every rank to `receive` of the rank `by` further on: a step along a ring, as in ring algorithms, or
/// along a line. By a multiple of the size a rank copies. `receive` of a rank to which nothing comes stays as it was.
/// Buffers and errors as of `exchange`.
template <class ExecutionSpace, class Send, class Receive>
  requires(!std::is_convertible_v<Receive, ShiftOptions>)
Request shift(const ExecutionSpace& execution, const Communicator& communicator, const Send& send,
              const Receive& receive, ShiftOptions options = {},
              std::source_location where = std::source_location::current()) {
  comm::check_pair<Send, Receive>();
  return comm::start_exchange(execution, communicator, send, receive, "shift", "kerkis::shift",
                              comm::neighbours(communicator, options), where);
}

/// The same in place, as `exchange`.
template <class ExecutionSpace, class View>
Request shift(const ExecutionSpace& execution, const Communicator& communicator, const View& view,
              ShiftOptions options = {}, std::source_location where = std::source_location::current()) {
  comm::check_written<View>();
  return comm::start_exchange<true>(execution, communicator, view, view, "shift", "kerkis::shift",
                                    comm::neighbours(communicator, options), where);
}

}  // namespace kerkis
