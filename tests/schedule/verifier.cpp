// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <kerkis/schedule/gpipe.hpp>
#include <kerkis/schedule/one_forward_one_backward.hpp>
#include <kerkis/schedule/proven.hpp>
#include <kerkis/schedule/verifier.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "schedules.hpp"

using namespace kerkis::schedule;
using kerkis::GPipe;
using kerkis::OneForwardOneBackward;

namespace {

// At compile time, up to the largest table that is promised to fit.
static_assert(small<GPipe, 8, 64> && !small<GPipe, 8, 65> && small<user::GPipeV, 8, 32> && !small<user::GPipeV, 8, 33>);
static_assert(proven<GPipe, 8, 64>);
static_assert(proven<OneForwardOneBackward, 8, 64>);
static_assert(proven<user::ZeroBubble<1, 1>, 8, 64>);
static_assert(static_depth<GPipe, 4, 8> == Depth{0, 0});
static_assert(static_depth<OneForwardOneBackward, 8, 64> == Depth{1, 0});
static_assert(static_depth<OneForwardOneBackward, 2, 1> == Depth{0, 0});
static_assert(fault_at<OneForwardOneBackward, PipelineShape{2, 2}, Depth{0, 0}> == Fault::deadlock);

// A user's mistake: the backward passes in an order that the other ranks do not follow.
struct Contrary {
  static constexpr std::string_view name = "contrary";
  static constexpr void order(PipelineShape shape, int rank, ActionList& list) {
    for (int m = 0; m < shape.microbatches; ++m) {
      const bool turned = rank % 2 == 1;
      list.forward(turned ? shape.microbatches - 1 - m : m);
      list.backward(turned ? shape.microbatches - 1 - m : m);
    }
  }
};
static_assert(!proven<Contrary, 2, 2> && static_fault<Contrary, 2, 2> == Fault::deadlock);

using List = std::vector<Action>;

constexpr Action f(int m, int chunk = 0) { return {ActionKind::forward, m, chunk}; }
constexpr Action b(int m, int chunk = 0) { return {ActionKind::backward, m, chunk}; }
constexpr Action i(int m, int chunk = 0) { return {ActionKind::backward_input, m, chunk}; }
constexpr Action w(int m, int chunk = 0) { return {ActionKind::backward_weight, m, chunk}; }

Table table_of(PipelineShape shape, const std::vector<List>& lists, std::vector<int> stages = {}) {
  std::vector<ActionList> all;
  for (const List& list : lists) {
    ActionList& mine = all.emplace_back();
    for (const Action& action : list) mine.append(action);
  }
  return Table(shape, std::move(all), std::move(stages));
}

void check_fault(const Table& table, Fault fault, int rank, Action action) {
  const Report report = verify(table);
  CAPTURE(explain(report));
  CHECK(report.fault == fault);
  CHECK(report.rank == rank);
  CHECK(report.action == action);
  CHECK_FALSE(least_depth(table));
}

}  // namespace

TEST_CASE("GPipe runs with blocking calls, 1F1B with one receive posted or one send buffered") {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 32; ++m) {
      CAPTURE(p);
      CAPTURE(m);
      const Report gpipe = verify(make_table<GPipe>({p, m}));
      CHECK(gpipe.ok());
      CHECK(gpipe.depth == Depth{0, 0});

      const Table one = make_table<OneForwardOneBackward>({p, m});
      const bool blocks = p >= 2 && m >= 2;
      CHECK(verify(one, {0, 0}).fault == (blocks ? Fault::deadlock : Fault::none));
      CHECK(verify(one, {0, 1}).ok());
      CHECK(verify(one, {5, 7}).ok());
      const Report report = verify(one);
      CHECK(report.ok());
      CHECK(report.depth == (blocks ? Depth{1, 0} : Depth{0, 0}));
      REQUIRE(report.peaks.size() == static_cast<std::size_t>(p));
      for (int rank = 0; rank < p; ++rank) {
        const int least = std::min(m, p - rank);
        CHECK(gpipe.peaks[static_cast<std::size_t>(rank)] == Live{m, m});
        CHECK(report.peaks[static_cast<std::size_t>(rank)] == Live{least, least});
      }
    }
  }
}

TEST_CASE("zero bubble deadlocks with blocking calls and runs with one send buffered") {
  for (int p = 2; p <= 8; ++p) {
    for (int m = 2; m <= 20; ++m) {
      for (const Table& table :
           {make_table<user::ZeroBubble<1, 1>>({p, m}), make_table<user::ZeroBubble<2, 2>>({p, m})}) {
        CHECK(verify(table, {0, 0}).fault == Fault::deadlock);
        CHECK(verify(table, {0, 1}).ok());
      }
    }
  }
}

TEST_CASE("breadth-first needs a depth that grows as microbatches / ranks") {
  Depth before;
  for (int m = 4; m <= 32; m += 4) {
    const Table table = make_table<user::BreadthFirst>({.ranks = 4, .microbatches = m, .chunks = 2});
    const auto depth = least_depth(table);
    REQUIRE(depth);
    CHECK(depth->receives + depth->sends >= m / 4 - 1);
    CHECK(depth->receives + depth->sends >= before.receives + before.sends);
    CHECK(verify(table, *depth).ok());
    before = *depth;
  }
  CHECK(before.receives + before.sends > 1);
}

TEST_CASE("more depth never hurts") {
  for (const Table& table : {make_table<OneForwardOneBackward>({3, 5}), make_table<user::BreadthFirst>({2, 5, 3}),
                             make_table<user::GPipeV>({3, 4})}) {
    for (int receives = 0; receives < 8; ++receives) {
      for (int sends = 0; sends < 8; ++sends) {
        if (!verify(table, {receives, sends}).ok()) continue;
        CHECK(verify(table, {receives + 1, sends}).ok());
        CHECK(verify(table, {receives, sends + 1}).ok());
      }
    }
  }
}

TEST_CASE("a deadlock says who waits for whom") {
  const Report report = verify(make_table<OneForwardOneBackward>({2, 2}), {0, 0});
  REQUIRE(report.cycle.size() == 2);
  for (std::size_t k = 0; k < 2; ++k) CHECK(report.cycle[k].peer == report.cycle[1 - k].rank);
  CHECK(explain(report) ==
        "deadlock with 0 posted receives and 0 buffered sends per peer and direction: "
        "rank 0 (forward of microbatch 1, chunk 0) waits for rank 1 to receive the activation of microbatch 1; "
        "rank 1 (backward of microbatch 0, chunk 0) waits for rank 0 to receive the gradient of microbatch 0");

  const Report contrary = verify(make_table<Contrary>({2, 2}));
  CHECK(explain(contrary) ==
        "deadlock at any depth of posted receives and buffered sends: "
        "rank 0 (backward of microbatch 0, chunk 0) waits for rank 1 to send the gradient of microbatch 0; "
        "rank 1 (forward of microbatch 1, chunk 0) waits for rank 0 to send the activation of microbatch 1");
  CHECK(explain(verify(make_table<GPipe>({2, 2}))) ==
        "proven with 0 posted receives and 0 buffered sends per peer and direction");
}

TEST_CASE("a table with a missing computation") {
  check_fault(table_of({2, 2}, {{f(0), f(1), b(0), b(1)}, {f(0), f(1), b(0)}}), Fault::missing, 1, b(1));
  check_fault(table_of({1, 1}, {{f(0), w(0)}}), Fault::missing, 0, i(0));
  check_fault(table_of({2, 2}, {{f(0), b(0), b(1)}, {f(0), f(1), b(0), b(1)}}), Fault::missing, 0, f(1));
  check_fault(table_of({1, 1}, {{f(0), i(0)}}), Fault::missing, 0, w(0));
  check_fault(table_of({1, 1}, {{}}), Fault::missing, 0, f(0));
  check_fault(make_table<user::OneByOne>({.ranks = 2, .microbatches = 1, .chunks = 2}), Fault::missing, 0, f(0, 1));
  CHECK(explain(verify(table_of({1, 1}, {{f(0), i(0)}}))) ==
        "a computation is missing: rank 0, backward_weight of microbatch 0, chunk 0");
}

TEST_CASE("a table with a doubled computation") {
  check_fault(table_of({1, 2}, {{f(0), f(1), f(0), b(0), b(1)}}), Fault::doubled, 0, f(0));
  check_fault(table_of({1, 1}, {{f(0), b(0), b(0)}}), Fault::doubled, 0, b(0));
  check_fault(table_of({1, 1}, {{f(0), b(0), w(0)}}), Fault::doubled, 0, w(0));
  check_fault(table_of({1, 1}, {{f(0), i(0), b(0)}}), Fault::doubled, 0, b(0));
}

TEST_CASE("a table with a misordered computation") {
  check_fault(table_of({1, 1}, {{b(0), f(0)}}), Fault::misordered, 0, i(0));
  check_fault(table_of({1, 1}, {{f(0), w(0), i(0)}}), Fault::misordered, 0, w(0));
  // stages 0 and 1 on one rank
  check_fault(table_of({1, 1, 2}, {{f(0, 1), f(0, 0), b(0, 1), b(0, 0)}}), Fault::misordered, 0, f(0, 1));
  check_fault(table_of({1, 1, 2}, {{f(0, 0), f(0, 1), b(0, 0), b(0, 1)}}), Fault::misordered, 0, i(0, 0));
  CHECK(verify(table_of({1, 1, 2}, {{f(0, 1), f(0, 0), b(0, 0), b(0, 1)}}, {1, 0})).ok());
}

TEST_CASE("nonsense is reported, not run") {
  check_fault(table_of({1, 1}, {{f(0), b(1)}}), Fault::bad_action, 0, b(1));
  check_fault(table_of({1, 1}, {{f(-1), b(0)}}), Fault::bad_action, 0, f(-1));
  check_fault(table_of({1, 1}, {{f(0, 1), b(0)}}), Fault::bad_action, 0, f(0, 1));
  check_fault(table_of({1, 1}, {{f(0, -1), b(0)}}), Fault::bad_action, 0, f(0, -1));
  const Action unknown{static_cast<ActionKind>(9), 0, 0};
  check_fault(table_of({1, 1}, {{f(0), unknown}}), Fault::bad_action, 0, unknown);
  CHECK(verify(table_of({2, 1}, {{f(0), b(0)}})).fault == Fault::bad_shape);
  CHECK(verify(table_of({2, 1}, {{f(0), b(0)}, {f(0), b(0)}}, {1, 1})).fault == Fault::bad_shape);
  CHECK(verify(make_table<GPipe>({2, 0})).fault == Fault::bad_shape);
  CHECK(verify(make_table<GPipe>({0, 2})).fault == Fault::bad_shape);
  const auto words = [](const Table& table) { return explain(verify(table)); };
  CHECK(words(make_table<GPipe>({0, 2})) == "the table does not fit together: an extent is below 1");
  CHECK(words(table_of({2, 1}, {{f(0), b(0)}})) == "the table does not fit together: it has not one list per rank");
  CHECK(words(table_of({2, 1}, {{f(0), b(0)}, {f(0), b(0)}}, {0})) ==
        "the table does not fit together: it has not one stage per chunk of each rank");
  CHECK(words(table_of({2, 1}, {{f(0), b(0)}, {f(0), b(0)}}, {1, 1})) ==
        "the table does not fit together: no chunk of any rank is stage 0");
  CHECK(words(table_of({2, 1}, {{f(0), b(0)}, {f(0), b(0)}}, {0, 2})) ==
        "the table does not fit together: no chunk of any rank is stage 1");
}
