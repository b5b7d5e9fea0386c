// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <kerkis/schedule/automatic.hpp>
#include <kerkis/schedule/live.hpp>
#include <kerkis/schedule/one_forward_one_backward.hpp>
#include <kerkis/schedule/zero_bubble_h1.hpp>
#include <kerkis/schedule/zero_bubble_h2.hpp>

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

// Tables 5 and 9 of Qi et al. 2024, arXiv:2401.10241: times in milliseconds, and the bubble rate that the paper's own
// search reached under a limit of 2p live microbatches.
struct Row {
  int ranks;
  int microbatches;
  Times times;
  double searched;
};
constexpr Row published[] = {
    {8, 24, {18.522, 18.086, 9.337, 0.601}, .0433},  {8, 32, {18.513, 18.086, 9.331, 0.626}, .0039},
    {8, 64, {18.546, 18.097, 9.321, 0.762}, .0026},  {16, 48, {11.347, 11.248, 8.132, 0.377}, .0066},
    {16, 64, {11.307, 11.254, 8.101, 0.379}, .0054}, {16, 128, {11.325, 11.308, 8.109, 0.378}, .0028},
};

/// The most that any rank keeps, as Automatic counts.
double peak(const Table& table, double weight_share) {
  const StageMemory kept{1 - weight_share, weight_share};
  const std::vector<double> peaks = peak_memory(table, {&kept, 1});
  return *std::max_element(peaks.begin(), peaks.end());
}

double work(const Row& row) {
  return row.microbatches * (row.times.forward + row.times.backward_input + row.times.backward_weight);
}

struct Random {
  std::mt19937 engine{11};
  double real(double least, double most) { return std::uniform_real_distribution<double>(least, most)(engine); }
  int whole(int least, int most) { return std::uniform_int_distribution<int>(least, most)(engine); }

  std::vector<Times> times(int ranks) {
    std::vector<Times> all(static_cast<std::size_t>(whole(0, 1) == 0 ? 1 : ranks));
    const double delay = whole(0, 2) == 0 ? 0 : real(0, 2);
    for (Times& one : all) one = {real(0.2, 2), real(0.2, 2), real(0.2, 2), delay, whole(0, 1) == 0 ? 1 : real(0, 1)};
    return all;
  }
};

}  // namespace

TEST_CASE("as good as the published search, within half a point of bubble") {
  for (const Row& row : published) {
    CAPTURE(row.ranks);
    CAPTURE(row.microbatches);
    const Automatic automatic{.times = {row.times}};
    const Table table = automatic.table({row.ranks, row.microbatches});
    const Timeline line = simulate(table, row.times);
    CHECK(line.bubble_rate <= row.searched + 0.005);
    CHECK(line.bubble_rate == Approx(1 - work(row) / line.span));
    CHECK(peak(table, automatic.weight_share) <= 2 * row.ranks);
    for (int rank = 0; rank < row.ranks; ++rank) CHECK(peak_live(table, rank).until_input <= 2 * row.ranks);
    CHECK(verify(table).ok());
  }
}

TEST_CASE("where all is kept until backward_weight no schedule does better, by the bound at the declaration") {
  for (const Row& row : published) {
    if (row.ranks > 8) continue;  // which take longer, and say the same
    CAPTURE(row.microbatches);
    const int p = row.ranks;
    const Times& t = row.times;
    const Table table = Automatic{.times = {t}, .weight_share = 1}.table({p, row.microbatches});
    const double idle =
        (p - 1) * (t.forward + t.backward_input + 2 * t.communication) - (2 * p - 1) * t.backward_weight;
    const double bound = idle / (work(row) + idle);
    const double rate = simulate(table, t).bubble_rate;
    CHECK(rate >= bound - 1e-9);
    CHECK(rate <= bound + 0.001);
    for (int rank = 0; rank < p; ++rank) CHECK(peak_live(table, rank).until_weight <= 2 * p);
  }
}

TEST_CASE("any times under any limit: proven, within the limit, and no worse than what is known") {
  Random random;
  for (int trial = 0; trial < 60; ++trial) {
    const int p = random.whole(1, 7), m = random.whole(1, 18);
    const Automatic automatic{.times = random.times(p),
                              .memory_limit = random.real(1, 2.0 * p + 2),
                              .weight_share = random.whole(0, 2) / 2.0,
                              .barrier = random.whole(0, 1) == 1};
    CAPTURE(p);
    CAPTURE(m);
    CAPTURE(*automatic.memory_limit);
    CAPTURE(automatic.weight_share);
    const Table table = automatic.table({p, m});
    CHECK(verify(table).ok());
    CHECK(peak(table, automatic.weight_share) <= *automatic.memory_limit + 1e-9);
    const auto length = [&](const Table& of) {
      const Timeline line = simulate(of, automatic.times);
      return automatic.barrier ? line.makespan : line.span;
    };
    for (const Table& known : {make_table<OneForwardOneBackward>({p, m}), make_table<ZeroBubbleH1>({p, m}),
                               make_table<ZeroBubbleH2>({p, m})}) {
      if (peak(known, automatic.weight_share) > std::floor(*automatic.memory_limit)) continue;
      CHECK(length(table) <= length(known) * (1 + 1e-8));
    }
  }
}

TEST_CASE("a larger limit is never worse") {
  Random random;
  for (int trial = 0; trial < 4; ++trial) {
    const int p = random.whole(2, 5), m = random.whole(4, 16);
    Automatic automatic{.times = random.times(p), .barrier = trial % 2 == 1};
    double before = std::numeric_limits<double>::infinity();
    for (double limit = 1; limit <= 2 * p + 3; limit += 0.5) {
      automatic.memory_limit = limit;
      const Timeline line = simulate(automatic.table({p, m}), automatic.times);
      const double length = automatic.barrier ? line.makespan : line.span;
      CHECK(length <= before * (1 + 1e-8));
      before = length;
    }
  }
}

TEST_CASE("large shapes are searched in coarser steps, and still no worse with more memory") {
  Automatic automatic{.times = {{1, 1.1, 0.7, 0.05}}};
  double before = std::numeric_limits<double>::infinity();
  for (const int limit : {3, 16, 20, 40}) {
    automatic.memory_limit = limit;
    const Table table = automatic.table({18, 256});
    CHECK(peak(table, automatic.weight_share) <= limit + 1e-9);
    const double span = simulate(table, automatic.times).span;
    CHECK(span <= before * (1 + 1e-8));
    before = span;
  }
  CHECK(before <= 1.01 * 256 * 2.8);
}

TEST_CASE("one microbatch at a time under the least limit, and no idling on one rank") {
  const Table table = Automatic{.memory_limit = 1}.table({3, 4});
  for (int rank = 0; rank < 3; ++rank) CHECK(peak_live(table, rank) == Live{1, 1});
  for (const double limit : {1.0, 2.0, 100.0}) {
    const Automatic automatic{.times = {{2, 3, 1, 0.5}}, .memory_limit = limit};
    CHECK(simulate(automatic.table({1, 5}), automatic.times).makespan == Approx(30));
  }
}

TEST_CASE("the same table every time") {
  const Automatic automatic{.times = {{1.1, 1.2, 0.7, 0.1}}, .memory_limit = 9};
  const Table one = automatic.table({6, 17}), two = automatic.table({6, 17});
  for (int rank = 0; rank < 6; ++rank) {
    CHECK(std::ranges::equal(one.actions(rank), two.actions(rank)));
  }
}

TEST_CASE("nothing takes time") {
  const Automatic automatic{.times = {{0, 0, 0, 0}}};
  CHECK(verify(automatic.table({3, 4})).ok());
  CHECK(verify(Automatic{.times = {{0, 1, 0, 0}}, .memory_limit = 2}.table({4, 4})).ok());
}

TEST_CASE("what can't be done is refused with the numbers") {
  const double nan = std::nan("");
  const auto refused = [](const Automatic& automatic, PipelineShape shape, const std::string& why) {
    CHECK_THROWS_WITH_AS((void)automatic.table(shape), why.c_str(), InputError);
  };
  refused({}, {0, 4}, "automatic: 0 ranks and 4 microbatches: at least 1 of each is needed");
  refused({}, {2, -1}, "automatic: 2 ranks and -1 microbatches: at least 1 of each is needed");
  refused({}, {1 << 10, 1 << 9}, "automatic: 1024 ranks and 512 microbatches: their product is above 262144");
  refused({}, {2, 4, 2}, "automatic: 2 chunks per rank; it places one");
  refused({.times = {{}, {}}}, {3, 4}, "automatic: times of 2 ranks for 3: give one entry for all, or one for each");
  refused({.memory_limit = 0.9}, {2, 4},
          "automatic: a memory limit of 0.9 microbatches; a rank can't work with less than 1");
  refused({.memory_limit = nan}, {2, 4},
          "automatic: a memory limit of nan microbatches; a rank can't work with less than 1");
  refused({.weight_share = 1.5}, {2, 4}, "automatic: a weight share of 1.5; it must be from 0 to 1");
  const Automatic negative{.times = {{-1, 1, 1, 0}}};
  CHECK_THROWS_AS((void)negative.table({2, 2}), InputError);
}
