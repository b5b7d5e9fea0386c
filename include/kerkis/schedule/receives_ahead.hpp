// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include <kerkis/schedule/communication.hpp>
#include <kerkis/schedule/simulator.hpp>
#include <kerkis/schedule/table.hpp>

namespace kerkis::schedule {

/// How many receives of a channel have to be posted ahead, counted as in `verify`, so that each message has its receive
/// when it is sent, if the table runs as in `line`. At least 1. The depth that a proof needs can be less: with it
/// nothing deadlocks, but a sender may stand still until the other rank comes round to consume (in BreadthFirst, for
/// nearly half of a chunk's microbatches).
[[nodiscard]] constexpr int receives_ahead(const Table& table, const Communication& communication,
                                           const Channel& channel, const Timeline& line) {
  const auto count = static_cast<std::size_t>(channel.size);
  std::vector<double> sent(count), taken(count);  // when, by number and by place
  const auto for_each_action = [&](int rank, auto&& visit) {
    for (std::size_t position = 0; position < table.actions(rank).size(); ++position)
      visit(communication.handoff(rank, static_cast<int>(position)),
            line.actions[static_cast<std::size_t>(rank)][position]);
  };
  const auto put = [&](std::vector<double>& times, int number, double time) {
    if (number >= channel.first && number < channel.first + channel.size)
      times[static_cast<std::size_t>(number - channel.first)] = time;
  };
  for_each_action(channel.source, [&](const Handoff& its, const Interval& when) { put(sent, its.output, when.end); });
  for_each_action(channel.destination, [&](const Handoff& its, const Interval& when) {
    if (its.input != no_message) put(taken, its.place, when.start);
  });

  int ahead = 1, consumed = 0;
  int places = 0, posted = 0;  // receives for so many places of consumption are those of so many messages
  for (int number = 0; number < channel.size; ++number) {
    while (consumed < channel.size &&
           taken[static_cast<std::size_t>(consumed)] <= sent[static_cast<std::size_t>(number)])
      ++consumed;
    for (; posted <= number; ++places)
      posted = std::max(posted, communication.consumed(channel.first + places) - channel.first + 1);
    ahead = std::max(ahead, places - consumed);
  }
  return ahead;
}

}  // namespace kerkis::schedule
