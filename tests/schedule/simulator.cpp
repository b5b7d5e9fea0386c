// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <kerkis/schedule/breadth_first.hpp>
#include <kerkis/schedule/forward_only.hpp>
#include <kerkis/schedule/gpipe.hpp>
#include <kerkis/schedule/interleaved.hpp>
#include <kerkis/schedule/live.hpp>
#include <kerkis/schedule/one_forward_one_backward.hpp>
#include <kerkis/schedule/registry.hpp>
#include <kerkis/schedule/simulator.hpp>
#include <kerkis/schedule/zero_bubble_h1.hpp>
#include <kerkis/schedule/zero_bubble_h2.hpp>
#include <kerkis/schedule/zero_bubble_v.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

using namespace kerkis::schedule;
using namespace kerkis;
using doctest::Approx;

namespace {

// Also in a constant expression: 2 ranks and 2 microbatches take 3 forwards and 3 backwards.
static_assert(simulate(make_table<GPipe>({2, 2}), {1, 1, 1, 0}).makespan == 9);
constexpr Times slow_second[] = {{1, 1, 1, 0}, {2, 2, 2, 0}};
static_assert(simulate(make_table<GPipe>({2, 2}), slow_second).makespan == 1 + 2 * 6 + 2);
constexpr bool adds_up() {
  const Table table = make_table<GPipe>({2, 2});
  const Timeline line = simulate(table, {1, 1, 1, 0.5});
  double sum = 0;
  for (const CriticalStep& step : critical_path(table, line)) sum += step.delay + step.duration;
  return sum == line.makespan;
}
static_assert(adds_up());
constexpr StageMemory kept[] = {{3, 1}};
static_assert(peak_memory(make_table<ZeroBubbleH1>({2, 4}), kept)[1] == 3 + 2 * 1);

// Tables 5 and 9 of Qi et al. 2024, arXiv:2401.10241: times in milliseconds, and the bubble rates that they imply.
struct Row {
  int ranks;
  int microbatches;
  Times times;
  double one_forward_one_backward;
  double interleaved;  // with 3 chunks
  double zero_bubble_h1;
  double zero_bubble_h2;
};
constexpr Row published[] = {
    {8, 24, {18.522, 18.086, 9.337, 0.601}, .2431, .1055, .1585, .1083},
    {8, 32, {18.513, 18.086, 9.331, 0.626}, .1985, .0818, .1242, .0837},
    {8, 64, {18.546, 18.097, 9.321, 0.762}, .1240, .0443, .0674, .0444},
    {16, 48, {11.347, 11.248, 8.132, 0.377}, .2552, .1104, .1397, .0672},
    {16, 64, {11.307, 11.254, 8.101, 0.379}, .2082, .0852, .1088, .0516},
    {16, 128, {11.325, 11.308, 8.109, 0.378}, .1251, .0445, .0576, .0266},
};

double four_digits(double rate) { return std::round(rate * 1e4) / 1e4; }

}  // namespace

TEST_CASE("published bubble rates, to all digits printed") {
  for (const Row& row : published) {
    const PipelineShape shape{row.ranks, row.microbatches};
    CAPTURE(row.ranks);
    CAPTURE(row.microbatches);
    const auto rate = [&](const Table& table) { return four_digits(simulate(table, row.times).bubble_rate); };
    CHECK(rate(make_table<OneForwardOneBackward>(shape)) == Approx(row.one_forward_one_backward).epsilon(1e-9));
    CHECK(rate(make_table<ZeroBubbleH1>(shape)) == Approx(row.zero_bubble_h1).epsilon(1e-9));
    CHECK(rate(make_table<ZeroBubbleH2>(shape)) == Approx(row.zero_bubble_h2).epsilon(1e-9));
  }
}

TEST_CASE("published bubble rate of interleaved 1F1B, whose cost is lower by one message per rank") {
  for (const Row& row : published) {
    const PipelineShape shape{.ranks = row.ranks, .microbatches = row.microbatches, .chunks = 3};
    const double work = row.microbatches * (row.times.forward + row.times.backward_input + row.times.backward_weight);
    const double printed = work / (1 - row.interleaved);
    const double excess = simulate(make_table<Interleaved<>>(shape), row.times).span - printed;
    // That the printed rate is rounded counts for up to `digits`; what is left was seen to be 0.2 of a message.
    const double digits = 0.5e-4 * work / ((1 - row.interleaved) * (1 - row.interleaved));
    CAPTURE(row.ranks);
    CAPTURE(row.microbatches);
    CHECK(std::abs(excess - row.ranks * row.times.communication) <= 0.3 * row.times.communication + digits);
  }
}

TEST_CASE("bubbles and live activations in closed form") {
  const double f = 3, b = 4, w = 2;
  const Times times{f, b, w, 0};
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 32; ++m) {
      CAPTURE(p);
      CAPTURE(m);
      const double work = m * (f + b + w);
      const double bubble = (p - 1) * (f + b + w);
      const auto check = [&](const Table& table, double idle) {
        const Timeline line = simulate(table, times);
        CHECK(line.span == Approx(work + idle));
        CHECK(line.bubble_rate == Approx(idle / (work + idle)));
        return line.makespan;
      };
      CHECK(check(make_table<GPipe>({p, m}), bubble) == Approx(work + bubble));
      CHECK(check(make_table<OneForwardOneBackward>({p, m}), bubble) == Approx(work + bubble));
      for (int v = 1; v <= 3; ++v) {
        const PipelineShape shape{p, m, v};
        if (m % p == 0) check(make_table<Interleaved<>>(shape), bubble / v);
        if (m >= p) check(make_table<BreadthFirst<>>(shape), bubble / v);
        const double first = peak_live(make_table<Interleaved<>>(shape), 0).until_input;
        if (m % p == 0 && m >= 2 * p && v > 1) CHECK(first == p * v + p - 1);  // p(1+(p-1)/(pv)) microbatches
        if (v == 1) CHECK(first == std::min(m, p));
      }
      check(make_table<ZeroBubbleH1>({p, m}), m >= p ? (p - 1) * (f + b - w) : (p - 1) * (f + b) - (m - 1) * w);
      for (int rank = 0; rank < p; ++rank) {
        const Live live = peak_live(make_table<ZeroBubbleH1>({p, m}), rank);
        CHECK(live.until_input == std::min(m, p - rank));
        if (m >= p) CHECK(live.until_weight == p);
        CHECK(peak_live(make_table<GPipe>({p, m}), rank) == Live{m, m});
        CHECK(peak_live(make_table<BreadthFirst<2>>({p, m}), rank) == Live{2 * m, 2 * m});
        if (m >= 2 * p - 1) {
          CHECK(peak_live(make_table<ZeroBubbleH2>({p, m}), rank) == Live{2 * (p - rank) - 1, 2 * p - 1});
        }
      }
      if (m < 2 * p - 1) continue;

      // All times equal: no bubble at all by span, yet the ranks end one after the other.
      const Times equal{1, 1, 1, 0};
      CHECK(simulate(make_table<ZeroBubbleH2>({p, m}), equal).bubble_rate == 0);
      CHECK(simulate(make_table<ZeroBubbleH2>({p, m}), equal).makespan == 3 * m + p - 1);
      const Table v = make_table<ZeroBubbleV>({p, m});
      CHECK(simulate(v, equal).bubble_rate == 0);
      CHECK(simulate(v, equal).span == 3 * m);
      for (int rank = 0; rank < p; ++rank) CHECK(peak_live(v, rank).until_input == 2 * p);
    }
  }
}

TEST_CASE("stages take the times that each has") {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> some(0.5, 2);
  for (const std::string_view name : Known::names) {
    CAPTURE(name);
    const Table table = make_table(name, {3, 5});
    std::vector<Times> stages;
    for (int s = 0; s < table.stages(); ++s) stages.push_back({some(random), some(random), some(random), some(random)});
    const Timeline line = simulate(table, stages);
    const Communication communication(table);
    std::vector<double> arrival(static_cast<std::size_t>(communication.size()));
    const auto visit = [&](auto&& see) {
      for (int rank = 0; rank < table.ranks(); ++rank) {
        for (std::size_t k = 0; k < table.actions(rank).size(); ++k) {
          see(rank, static_cast<int>(k), table.actions(rank)[k], line.actions[static_cast<std::size_t>(rank)][k]);
        }
      }
    };
    double work = 0;
    visit([&](int rank, int k, const Action& action, const Interval& when) {
      const Times& mine = stages[static_cast<std::size_t>(table.stage(rank, action.chunk))];
      CHECK(when.end - when.start == Approx(mine.of(action.kind)));
      work += mine.of(action.kind);
      const int output = communication.handoff(rank, k).output;
      if (output != no_message) arrival[static_cast<std::size_t>(output)] = when.end + mine.communication;
    });
    visit([&](int rank, int k, const Action&, const Interval& when) {
      // As soon as may be, and no sooner.
      double earliest = k == 0 ? 0 : line.actions[static_cast<std::size_t>(rank)][static_cast<std::size_t>(k - 1)].end;
      const int input = communication.handoff(rank, k).input;
      if (input != no_message) earliest = std::max(earliest, arrival[static_cast<std::size_t>(input)]);
      CHECK(when.start == Approx(earliest));
    });
    CHECK(line.bubble_rate == Approx(1 - work / table.ranks() / line.span));

    // All alike: one entry, one for each, and the rank's share are the same.
    const Times whole{1, 2, 3, 0.25};
    const double c = table.chunks();
    const std::vector<Times> one{{1 / c, 2 / c, 3 / c, 0.25}};
    const std::vector<Times> each(static_cast<std::size_t>(table.stages()), one.front());
    CHECK(simulate(table, one).span == Approx(simulate(table, whole).span));
    CHECK(simulate(table, each).makespan == Approx(simulate(table, whole).makespan));
  }
}

TEST_CASE("what is not overlapped keeps the sender") {
  const Table table = make_table<GPipe>({2, 3});
  CHECK(simulate(table, {1, 1, 1, 0.5, 1}).makespan == Approx(1 + 0.5 + 3 + 6 + 0.5 + 2));
  // The first rank's forwards are then 1.5 apart, and the second's backwards 2.5.
  CHECK(simulate(table, {1, 1, 1, 0.5, 0}).makespan == Approx(3 * 1.5 + 1 + 3 * 2.5 + 2));
  CHECK(simulate(table, {1, 1, 1, 0.5, 0.5}).makespan == Approx(3 * 1.25 + 0.25 + 1 + 3 * 2.25 + 0.25 + 2));
  CHECK(simulate(make_table<GPipe>({1, 3}), {1, 1, 1, 0.5, 0}).makespan == 9);  // nothing is sent
}

TEST_CASE("the critical path explains the makespan") {
  std::mt19937 random(6);
  std::uniform_real_distribution<double> some(0.5, 2);
  for (const std::string_view name : Known::names) {
    for (const int m : {1, 3, 8}) {
      CAPTURE(name);
      CAPTURE(m);
      const Table table = make_table(name, {4, m});
      std::vector<Times> stages;
      for (int s = 0; s < table.stages(); ++s) {
        stages.push_back({some(random), some(random), some(random), some(random) - 0.5, 0.5});
      }
      const Timeline line = simulate(table, stages);
      const std::vector<CriticalStep> path = critical_path(table, line);
      REQUIRE_FALSE(path.empty());
      double now = 0;
      for (const CriticalStep& step : path) {
        const auto rank = static_cast<std::size_t>(step.rank), position = static_cast<std::size_t>(step.position);
        CHECK(step.action == table.actions(step.rank)[position]);
        now += step.delay;
        CHECK(line.actions[rank][position].start == Approx(now));
        now += step.duration;
        CHECK(line.actions[rank][position].end == Approx(now));
      }
      CHECK(now == Approx(line.makespan));

      // Each step is to blame: were it longer, so would be the whole.
      for (const std::size_t k : {std::size_t{0}, path.size() / 2, path.size() - 1}) {
        std::vector<Times> slower = stages;
        Times& times = slower[static_cast<std::size_t>(table.stage(path[k].rank, path[k].action.chunk))];
        if (computes_forward(path[k].action.kind)) times.forward += 0.01;
        if (computes_input_gradient(path[k].action.kind)) times.backward_input += 0.01;
        if (computes_weight_gradient(path[k].action.kind)) times.backward_weight += 0.01;
        CHECK(simulate(table, slower).makespan > line.makespan + 0.009);
      }
    }
  }
}

TEST_CASE("peaks in bytes follow from the order") {
  const StageMemory both{1, 0}, weights{0, 1};
  for (const std::string_view name : Known::names) {
    CAPTURE(name);
    const Table table = make_table(name, {4, 9});
    for (int rank = 0; rank < 4; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      CHECK(peak_memory(table, {&both, 1})[r] == peak_live(table, rank).until_input);
      CHECK(peak_memory(table, {&weights, 1})[r] == peak_live(table, rank).until_weight);
    }
  }
  // GPipe keeps all; the last stage of three is heavier.
  const std::vector<StageMemory> stages{{10, 1}, {20, 2}, {300, 3}};
  CHECK(peak_memory(make_table<GPipe>({3, 4}), stages) == std::vector<double>{44, 88, 1212});
  // At the peak of ZB-H1's last rank one microbatch waits for its backward_input and three for their backward_weight.
  CHECK(peak_memory(make_table<ZeroBubbleH1>({3, 6}), stages)[2] == 300 + 3 * 3);
  const std::vector<StageMemory> one{{7, 0}};
  CHECK(peak_memory(make_table<ForwardOnly>({3, 6}), one) == std::vector<double>{7, 7, 7});
}

TEST_CASE("times that make no sense are refused") {
  const Table table = make_table<GPipe>({2, 2});
  const double nan = std::nan(""), infinity = std::numeric_limits<double>::infinity();
  for (const Times& wrong : {Times{-1, 1, 1, 0}, Times{1, nan, 1, 0}, Times{1, 1, infinity, 0}, Times{1, 1, 1, -0.1},
                             Times{1, 1, 1, 0, 1.5}, Times{1, 1, 1, 0, nan}}) {
    CHECK_THROWS_AS((void)simulate(table, wrong), InputError);
  }
  const std::vector<Times> three(3);
  CHECK_THROWS_WITH_AS((void)simulate(table, three), "3 entries for 2 stages: give one for all, or one for each",
                       InputError);
  CHECK_THROWS_AS((void)peak_memory(table, {}), InputError);
  CHECK(simulate(table, {0, 0, 0, 0}).bubble_rate == 0);
}

TEST_CASE("actions neither overlap nor start before their input") {
  const Table table = make_table<OneForwardOneBackward>({3, 4});
  const Timeline line = simulate(table, {2, 3, 1, 0.5});
  for (int rank = 0; rank < 3; ++rank) {
    const auto& actions = line.actions[static_cast<std::size_t>(rank)];
    REQUIRE(actions.size() == table.actions(rank).size());
    for (std::size_t k = 0; k < actions.size(); ++k) {
      const bool forward = table.actions(rank)[k].kind == ActionKind::forward;
      CHECK(actions[k].end - actions[k].start == Approx(forward ? 2 : 4));
      if (k > 0) CHECK(actions[k].start >= actions[k - 1].end);
    }
    CHECK(actions.front().start == Approx(rank * 2.5));
  }
}

TEST_CASE("what never ends takes for ever") {
  std::vector<ActionList> lists(2);
  lists[0].forward(0);
  lists[0].backward(0);
  lists[0].forward(1);
  lists[0].backward(1);
  lists[1].forward(1);
  lists[1].backward(1);
  lists[1].forward(0);
  lists[1].backward(0);
  const Timeline line = simulate(Table({2, 2}, lists), Times{});
  CHECK(line.span == std::numeric_limits<double>::infinity());
  CHECK(line.makespan == std::numeric_limits<double>::infinity());
  CHECK(line.bubble_rate == 1);
  CHECK(critical_path(Table({2, 2}, lists), line).empty());
}
