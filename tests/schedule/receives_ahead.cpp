// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <kerkis/schedule/forward_only.hpp>
#include <kerkis/schedule/receives_ahead.hpp>
#include <kerkis/schedule/registry.hpp>
#include <kerkis/schedule/verifier.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

using namespace kerkis::schedule;
using namespace kerkis;

namespace {

constexpr Times same;

/// The end of a table whose computations all take the same time, if a rank goes on only once each message that it has
/// sent has its receive: channel k has `ahead[k]` of them posted.
double end_with(const Table& table, const Communication& communication, const std::vector<int>& ahead) {
  constexpr double never = std::numeric_limits<double>::infinity();
  const auto messages = static_cast<std::size_t>(communication.size());
  std::vector<double> posted(messages, never), sent(messages, never);
  const auto post = [&](std::size_t k, int places, double now) {
    const Channel& channel = communication.channels()[k];
    int last = -1;
    for (int place = 0; place < std::min(places, channel.size); ++place)
      last = std::max(last, communication.consumed(channel.first + place));
    for (int number = channel.first; number <= last; ++number)
      posted[static_cast<std::size_t>(number)] = std::min(posted[static_cast<std::size_t>(number)], now);
  };
  const auto channel_of = [&](int number) {
    std::size_t k = 0;
    while (number < communication.channels()[k].first ||
           number >= communication.channels()[k].first + communication.channels()[k].size)
      ++k;
    return k;
  };
  for (std::size_t k = 0; k < ahead.size(); ++k) post(k, ahead[k], 0);

  struct Rank {
    std::size_t next = 0;
    double now = 0;
    bool computed = false;
  };
  std::vector<Rank> ranks(static_cast<std::size_t>(table.ranks()));
  bool moved = true;
  while (moved) {
    moved = false;
    for (int r = 0; r < table.ranks(); ++r) {
      Rank& me = ranks[static_cast<std::size_t>(r)];
      while (me.next < table.actions(r).size()) {
        const Handoff& handoff = communication.handoff(r, static_cast<int>(me.next));
        if (!me.computed) {
          if (handoff.input != no_message) {
            if (sent[static_cast<std::size_t>(handoff.input)] == never) break;
            me.now = std::max(me.now, sent[static_cast<std::size_t>(handoff.input)]);
            const std::size_t k = channel_of(handoff.place);
            post(k, handoff.place - communication.channels()[k].first + 1 + ahead[k], me.now);
          }
          me.now += same.of(table.actions(r)[me.next].kind);
          if (handoff.output != no_message) sent[static_cast<std::size_t>(handoff.output)] = me.now;
          me.computed = moved = true;
        }
        if (handoff.output != no_message) {
          if (posted[static_cast<std::size_t>(handoff.output)] == never) break;
          me.now = std::max(me.now, posted[static_cast<std::size_t>(handoff.output)]);
        }
        me.computed = false;
        moved = true;
        ++me.next;
      }
    }
  }
  double end = 0;
  for (int r = 0; r < table.ranks(); ++r) {
    const Rank& me = ranks[static_cast<std::size_t>(r)];
    end = std::max(end, me.next < table.actions(r).size() ? never : me.now);
  }
  return end;
}

struct Depths {
  Communication communication;
  Timeline line;
  std::vector<int> ahead;

  explicit Depths(const Table& table) : communication(table), line(simulate(table, {&same, 1})) {
    for (const Channel& channel : communication.channels())
      ahead.push_back(receives_ahead(table, communication, channel, line));
  }
};

}  // namespace

TEST_CASE("with the receives posted that the timeline asks for, no sender waits") {
  for (int ranks = 1; ranks <= 6; ++ranks)
    for (const int microbatches : {1, 2, 3, 5, 8, 16})
      for (int chunks = 1; chunks <= 3; ++chunks)
        for (const std::string_view name : Known::names) {
          Known::visit(name, [&]<class S>() {
            const PipelineShape shape{ranks, microbatches, chunks};
            if (shape_for<S>(shape) != shape || !refusal<S>(shape).empty()) return;
            CAPTURE(std::string(name));
            CAPTURE(ranks);
            CAPTURE(microbatches);
            CAPTURE(chunks);
            const Table table = make_table<S>(shape);
            for (const Table& its : {table, forward_only(table, microbatches), forward_only(table, microbatches, 2)}) {
              const Depths depths(its);
              CHECK(end_with(its, depths.communication, depths.ahead) == depths.line.makespan);
            }
          });
        }
}

TEST_CASE("a breadth-first order needs more of them than its proof, other orders do not") {
  const Table table = make_table<BreadthFirst<2>>({2, 16});
  const Depths depths(table);
  const Depth proven = least_depth(table).value();
  CHECK(proven == Depth{8, 0});
  CHECK(*std::ranges::max_element(depths.ahead) == 14);
  CHECK(end_with(table, depths.communication, std::vector<int>(depths.ahead.size(), proven.receives)) >
        depths.line.makespan);
  for (const char* name : {"gpipe", "1f1b", "interleaved", "zb-h1", "zb-v"}) {
    CAPTURE(name);
    const Depths its(make_table(name, {2, 16}));
    CHECK(*std::ranges::max_element(its.ahead) == 1);
  }
}
