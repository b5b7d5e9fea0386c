// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <kerkis/schedule/gpipe.hpp>
#include <kerkis/schedule/one_forward_one_backward.hpp>
#include <kerkis/schedule/simulator.hpp>

#include <algorithm>
#include <cmath>
#include <limits>

#include "schedules.hpp"

using namespace kerkis::schedule;
using doctest::Approx;
using kerkis::GPipe;
using kerkis::OneForwardOneBackward;

namespace {

// Also in a constant expression: 2 ranks and 2 microbatches take 3 forwards and 3 backwards.
static_assert(simulate(make_table<GPipe>({2, 2}), {1, 1, 1, 0}).makespan == 9);

// Tables 5 and 9 of Qi et al. 2024, arXiv:2401.10241: times in milliseconds, and the bubble rates that they imply.
struct Row {
  int ranks;
  int microbatches;
  Times times;
  double one_forward_one_backward;
  double zero_bubble_h1;
  double zero_bubble_h2;
};
constexpr Row published[] = {
    {8, 24, {18.522, 18.086, 9.337, 0.601}, .2431, .1585, .1083},
    {8, 32, {18.513, 18.086, 9.331, 0.626}, .1985, .1242, .0837},
    {8, 64, {18.546, 18.097, 9.321, 0.762}, .1240, .0674, .0444},
    {16, 48, {11.347, 11.248, 8.132, 0.377}, .2552, .1397, .0672},
    {16, 64, {11.307, 11.254, 8.101, 0.379}, .2082, .1088, .0516},
    {16, 128, {11.325, 11.308, 8.109, 0.378}, .1251, .0576, .0266},
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
    CHECK(rate(make_table<user::ZeroBubble<1, 1>>(shape)) == Approx(row.zero_bubble_h1).epsilon(1e-9));
    CHECK(rate(make_table<user::ZeroBubble<2, 2>>(shape)) == Approx(row.zero_bubble_h2).epsilon(1e-9));
  }
}

TEST_CASE("bubbles in closed form") {
  const Times times{3, 4, 2, 0};
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 32; ++m) {
      CAPTURE(p);
      CAPTURE(m);
      const double work = m * 9.0;
      const double bubble = (p - 1) * 9.0;
      for (const Table& table : {make_table<GPipe>({p, m}), make_table<OneForwardOneBackward>({p, m})}) {
        const Timeline line = simulate(table, times);
        CHECK(line.span == Approx(work + bubble));
        CHECK(line.makespan == Approx(work + bubble));
        CHECK(line.bubble_rate == Approx(bubble / (work + bubble)));
      }
      const double h1 = m >= p ? (p - 1) * (3.0 + 4 - 2) : (p - 1) * (3.0 + 4) - (m - 1) * 2.0;
      CHECK(simulate(make_table<user::ZeroBubble<1, 1>>({p, m}), times).span == Approx(work + h1));
      if (m >= 2 * p - 1) {
        CHECK(simulate(make_table<user::ZeroBubble<2, 2>>({p, m}), {1, 1, 1, 0}).bubble_rate == Approx(0));
      }
      if (m >= p) {
        const Table table = make_table<user::BreadthFirst>({.ranks = p, .microbatches = m, .chunks = 3});
        CHECK(simulate(table, times).span == Approx(work + bubble / 3));
      }
    }
  }
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
  const Timeline line = simulate(Table({2, 2}, lists), {});
  CHECK(line.span == std::numeric_limits<double>::infinity());
  CHECK(line.makespan == std::numeric_limits<double>::infinity());
  CHECK(line.bubble_rate == 1);
}
