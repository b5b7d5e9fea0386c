// SPDX-License-Identifier: Apache-2.0
// Every schedule of the library: proven for all shapes, and as long, as empty and as full as its paper says.
#include <doctest/doctest.h>

#include <kerkis/schedule/buffers.hpp>
#include <kerkis/schedule/forward_only.hpp>
#include <kerkis/schedule/registry.hpp>
#include <kerkis/schedule/simulator.hpp>
#include <kerkis/schedule/verifier.hpp>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

using namespace kerkis;
using namespace kerkis::schedule;
using doctest::Approx;

namespace {

constexpr Times equal{1, 1, 1, 0};

std::vector<int> chunks_of(std::string_view name) {
  if (name == "interleaved" || name == "bfs") return {1, 2, 3};
  return {1};
}

/// Everything up to 16 ranks and 64 microbatches if the environment says KERKIS_TEST_ALL=1, otherwise a sample.
std::vector<PipelineShape> shapes() {
  const char* all = std::getenv("KERKIS_TEST_ALL");
  const bool whole = all != nullptr && std::string_view(all) == "1";
  std::vector<PipelineShape> result;
  for (int p = 1; p <= 16; ++p) {
    for (int m = 1; m <= 64; ++m) {
      const bool edge = m <= 3 || m == p - 1 || m == p || m == p + 1 || m == 2 * p - 1 || m == 2 * p || m == 64;
      if (whole || edge || (7 * p + m) % 13 == 0) result.push_back({p, m});
    }
  }
  return result;
}

int most(const Report& report, int Live::* until) {
  int peak = 0;
  for (const Live& live : report.peaks) peak = std::max(peak, live.*until);
  return peak;
}

double bubble(const Table& table, const Times& times = equal) {
  const double work = table.microbatches() * (times.forward + times.backward_input + times.backward_weight);
  return simulate(table, times).span - work;
}

}  // namespace

TEST_CASE("every schedule is proven for every shape, in blocking calls or with little help") {
  for (const PipelineShape& shape : shapes()) {
    for (const std::string_view name : Known::names) {
      for (const int chunks : chunks_of(name)) {
        const Table table = make_table(name, {shape.ranks, shape.microbatches, chunks});
        const Report report = verify(table);
        CAPTURE(name);
        CAPTURE(shape.ranks);
        CAPTURE(shape.microbatches);
        CAPTURE(chunks);
        REQUIRE_MESSAGE(report.ok(), explain(report));
        const int least = report.depth.receives + report.depth.sends;
        if (name == "gpipe" || shape.ranks == 1 || (table.chunks() == 1 && shape.microbatches == 1)) CHECK(least == 0);
        if (name == "bfs") {
          CHECK(least <= std::max(1, (shape.microbatches + shape.ranks - 1) / shape.ranks));
        } else {
          CHECK(least <= 2);
        }
        // a send left behind serves the handcrafted ones as well as a receive posted early
        if (name.starts_with("zb-h")) CHECK(verify(table, {0, 1}).ok());
      }
    }
    CHECK(verify(make_table<ForwardOnly>({shape.ranks, shape.microbatches, 3})).ok());
  }
}

TEST_CASE("ZB-H1 and ZB-H2: bubble and memory") {
  const Times times{3, 4, 2, 0};
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 32; ++m) {
      CAPTURE(p);
      CAPTURE(m);
      const Table h1 = make_table<ZeroBubbleH1>({p, m});
      const Table h2 = make_table<ZeroBubbleH2>({p, m});
      const double closed = m >= p ? (p - 1) * (3.0 + 4 - 2) : (p - 1) * (3.0 + 4) - (m - 1) * 2.0;
      CHECK(bubble(h1, times) == Approx(closed));
      if (m >= 2 * p - 1) CHECK(bubble(h2) == Approx(0));
      for (int rank = 0; rank < p; ++rank) {
        CHECK(peak_live(h1, rank).until_input == std::min(m, p - rank));
        if (m >= p) CHECK(peak_live(h1, rank).until_weight == p);
        if (m >= 2 * p - 1) CHECK(peak_live(h2, rank) == Live{2 * (p - rank) - 1, 2 * p - 1});
      }
    }
  }
}

TEST_CASE("interleaved and breadth-first: bubble and memory") {
  for (int p = 1; p <= 8; ++p) {
    for (int v = 1; v <= 4; ++v) {
      for (int m = 1; m <= 5 * p; ++m) {
        CAPTURE(p);
        CAPTURE(v);
        CAPTURE(m);
        const Table interleaved = make_table<Interleaved<>>({p, m, v});
        const Table breadth = make_table<BreadthFirst<>>({p, m, v});
        if (m % p == 0) CHECK(bubble(interleaved) == Approx(3.0 * (p - 1) / v));
        if (m >= p) CHECK(bubble(breadth) == Approx(3.0 * (p - 1) / v));
        CHECK(peak_live(breadth, 0) == Live{m * v, m * v});
        if (v > 1 && m % p == 0 && m >= 2 * p) CHECK(peak_live(interleaved, 0).until_weight == v * p + p - 1);
        if (v == 1) CHECK(to_string(verify(interleaved).fault) == "proven");
      }
    }
  }
}

TEST_CASE("interleaved with one chunk is 1F1B; its group is an option, and its chunks come from type or shape") {
  const auto same = [](const Table& a, const Table& b) {
    if (a.shape() != b.shape()) return false;
    for (int rank = 0; rank < a.ranks(); ++rank) {
      if (!std::ranges::equal(a.actions(rank), b.actions(rank))) return false;
    }
    return true;
  };
  for (int p = 1; p <= 5; ++p) {
    for (int m = 1; m <= 12; ++m) {
      CHECK(same(make_table<Interleaved<1>>({p, m}), make_table<OneForwardOneBackward>({p, m})));
      CHECK(same(make_table<Interleaved<3>>({p, m}), make_table<Interleaved<>>({p, m, 3})));
      CHECK(same(make_table<Interleaved<3, 4>>({4, m}), make_table<Interleaved<3>>({4, m})));
      CHECK(same(make_table<BreadthFirst<2>>({p, m}), make_table<BreadthFirst<>>({p, m, 2})));
      // all in one group: the forwards of breadth-first
      const Table wide = make_table<Interleaved<3, 12>>({p, m});
      CHECK(verify(wide).ok());
      CHECK(peak_live(wide, 0).until_weight >= peak_live(make_table<Interleaved<3>>({p, m}), 0).until_weight);
    }
  }
}

TEST_CASE("ZB-V: no bubble, and exactly 2 p chunks of a microbatch everywhere") {
  for (int p = 1; p <= 16; ++p) {
    for (const int m : {2 * p - 1, 2 * p, 2 * p + 1, 3 * p + 2, 64}) {
      CAPTURE(p);
      CAPTURE(m);
      const Table table = make_table<ZeroBubbleV>({p, m});
      if (m >= 2 * p - 1) CHECK(simulate(table, equal).bubble_rate == Approx(0));
      for (int rank = 0; rank < p; ++rank) {
        CHECK(peak_live(table, rank) == Live{2 * p, 2 * p});
        CHECK(whole_stages(peak_live(table, rank).until_weight, table) == p);
      }
    }
  }
}

TEST_CASE("V-Half and V-Min: a half and a third of the memory of 1F1B, for a half and two thirds of its bubble") {
  for (int p = 1; p <= 24; ++p) {
    for (const int m : {1, 2, p, 2 * p, 3 * p + 1, 4 * p}) {
      CAPTURE(p);
      CAPTURE(m);
      const Table half = make_table<ZeroBubbleVHalf>({p, m});
      const Table third = make_table<ZeroBubbleVMin>({p, m});
      const Report half_report = verify(half), third_report = verify(third);
      CHECK(half_report.ok());
      CHECK(third_report.ok());
      CHECK(most(half_report, &Live::until_weight) <= 2 * ((p + 2) / 2));
      CHECK(most(third_report, &Live::until_weight) <= 2 * ((p + 4) / 3));
      if (m < 2 * p) continue;
      CHECK(bubble(half) <= 1.5 * p);
      CHECK(bubble(third) <= 2.0 * p);
      CHECK(most(half_report, &Live::until_input) >= p);
    }
  }
}

TEST_CASE("DualPipeV: the published bubble and memory; forwards and backwards stand in pairs") {
  const Times times{3, 4, 2, 0};
  for (int p = 1; p <= 12; ++p) {
    for (const int m : {2 * p, 2 * p + 1, 5 * p}) {
      CAPTURE(p);
      CAPTURE(m);
      const Table table = make_table<DualPipeV>({p, m});
      // (PP/2 - 1) (F&B + B - 3W) with PP = 2 p stages, and nothing gained by the overlap
      const double work = m * 9.0;
      CHECK(simulate(table, times).makespan - work <= (p - 1) * (3 + 2 * 6 - 3 * 2) / 2.0 + 1e-9);
      for (int rank = 0; rank < p; ++rank) {
        CHECK(peak_live(table, rank).until_weight <= 2 * p + 1);
        int pairs = 0;
        const auto actions = table.actions(rank);
        for (std::size_t k = 1; k < actions.size(); ++k) {
          pairs += actions[k - 1].kind == ActionKind::forward && actions[k].kind == ActionKind::backward;
          if (actions[k].kind == ActionKind::backward && actions[k - 1].kind == ActionKind::forward) {
            CHECK(actions[k - 1].microbatch != actions[k].microbatch);
            CHECK(actions[k - 1].chunk != actions[k].chunk);
          }
        }
        CHECK(pairs >= 2 * (m - 2 * p + rank + 1));
      }
    }
  }
}

TEST_CASE("forward only: complete without backwards, which it refuses, and nothing is kept") {
  const Table table = make_table<ForwardOnly>({3, 7, 2});
  CHECK_FALSE(table.trains());
  const Report report = verify(table);
  CHECK(report.ok());
  CHECK(report.peaks == std::vector<Live>(3, Live{1, 1}));
  const Communication communication(table);
  for (const Channel& channel : communication.channels()) CHECK(channel.direction == Direction::forward);

  std::vector<ActionList> lists(1);
  lists[0].forward(0);
  CHECK(verify(Table({1, 1}, lists)).fault == Fault::missing);
  CHECK(verify(Table({1, 1}, lists, {}, Purpose::inference)).ok());
  CHECK(verify(Table({1, 2}, lists, {}, Purpose::inference)).fault == Fault::missing);
  lists[0].backward(0);
  CHECK(verify(Table({1, 1}, lists, {}, Purpose::inference)).fault == Fault::bad_action);

  for (const std::string_view name : Known::names) {
    const Table training = make_table(name, {4, 8});
    const Table evaluation = forward_only(training, 5);
    CAPTURE(name);
    CHECK(verify(evaluation).ok());
    CHECK(evaluation.shape() == PipelineShape{4, 5, training.chunks()});
    for (int rank = 0; rank < 4; ++rank) {
      for (int chunk = 0; chunk < training.chunks(); ++chunk) {
        CHECK(evaluation.stage(rank, chunk) == training.stage(rank, chunk));
      }
    }
  }
}

TEST_CASE(
    "forward only with feedback: complete, sound, and without a bubble once there are as many sequences as stages") {
  for (const std::string_view name : {"gpipe", "zb-v", "interleaved", "bfs"}) {
    for (int ranks = 1; ranks <= 6; ++ranks) {
      for (int chunks = 1; chunks <= 3; ++chunks) {
        if (chunks > 1 && (name == "gpipe" || name == "zb-v")) continue;
        const Table placement = make_table(name, {ranks, ranks, chunks});
        const int stages = placement.stages();
        for (int sequences = 1; sequences <= 2 * ranks; ++sequences) {
          CAPTURE(name);
          CAPTURE(ranks);
          CAPTURE(chunks);
          CAPTURE(sequences);
          constexpr int tokens = 4;
          const Table table = forward_only(placement, tokens * sequences, sequences);
          const Report report = verify(table);
          CHECK_MESSAGE(report.ok(), explain(report));
          CHECK(report.peaks == std::vector<Live>(static_cast<std::size_t>(ranks), Live{1, 1}));
          // A stage takes 1. One sequence is serial; with one per stage and one chunk the ranks never wait for a token.
          const double makespan = simulate(table, {.forward = static_cast<double>(placement.chunks())}).makespan;
          if (sequences == 1) CHECK(makespan == tokens * stages);
          if (sequences >= ranks && placement.chunks() == 1) CHECK(makespan == tokens * sequences + ranks - 1);
          CHECK(makespan >= tokens * std::max(stages, sequences * placement.chunks()));
        }
      }
    }
  }
  // More than there are microbatches: nothing is fed back.
  const Table table = forward_only(make_table<GPipe>({3, 1}), 5, 5);
  CHECK(Communication(table).size() == 2 * 5);
  CHECK(Communication(forward_only(table, 5, 3)).size() == 2 * 5 + 2);
  std::vector<ActionList> lists(1);
  lists[0].forward(0);
  CHECK(verify(Table({1, 1}, lists, {}, Purpose::inference, -1)).fault == Fault::bad_shape);
  lists[0].backward(0);
  CHECK(verify(Table({1, 1}, lists)).ok());
  CHECK(verify(Table({1, 1}, lists, {}, Purpose::training, 1)).fault == Fault::bad_shape);
  // A microbatch before the one that it comes of.
  lists.assign(1, {});
  for (const int m : {1, 0, 2}) lists[0].forward(m);
  CHECK(verify(Table({1, 3}, lists, {}, Purpose::inference, 2)).ok());
  CHECK(verify(Table({1, 3}, lists, {}, Purpose::inference, 1)).fault == Fault::misordered);
  lists.assign(2, lists[0]);
  CHECK(verify(Table({2, 3}, lists, {}, Purpose::inference, 1)).fault == Fault::deadlock);
}

TEST_CASE("what each action keeps, and the buffers of a depth") {
  const Table one = make_table<OneForwardOneBackward>({2, 3});
  CHECK(live(one, 0) == std::vector<Live>{{1, 1}, {2, 2}, {2, 2}, {2, 2}, {2, 2}, {1, 1}});
  const Table h1 = make_table<ZeroBubbleH1>({2, 2});
  CHECK(live(h1, 1) == std::vector<Live>{{1, 1}, {1, 1}, {1, 2}, {1, 2}, {0, 2}, {0, 1}});
  const Table v = make_table<ZeroBubbleV>({2, 3});
  for (int rank = 0; rank < 2; ++rank) {
    int peak = 0;
    for (const Live& now : live(v, rank)) peak = std::max(peak, now.until_weight);
    CHECK(peak == peak_live(v, rank).until_weight);
    CHECK(peak_live(v, rank).until_weight <= peak_live(v, rank, 0).until_weight + peak_live(v, rank, 1).until_weight);
  }
  CHECK(whole_stages(3, v) == 1.5);

  // two neighbours in the middle, one at each end; a channel never needs more than its messages
  const Table middle = make_table<OneForwardOneBackward>({3, 8});
  const Communication communication(middle);
  CHECK(buffers(communication, 0, {1, 0}) == Buffers{2, 1});
  CHECK(buffers(communication, 1, {1, 0}) == Buffers{4, 2});
  CHECK(buffers(communication, 1, {0, 3}) == Buffers{2, 8});
  CHECK(buffers(communication, 1, unbounded) == Buffers{16, 16});
  CHECK(buffers(Communication(make_table<GPipe>({1, 4})), 0, unbounded) == Buffers{0, 0});
}

TEST_CASE("schedules by name, and what is refused") {
  for (const std::string_view name : Known::names) CHECK(make_table(name, {3, 5}).ranks() == 3);
  CHECK(make_table("zb-v", {3, 5}).chunks() == 2);
  CHECK(make_table("zb-v", {3, 5, 2}).chunks() == 2);
  CHECK(make_table("interleaved", {3, 5, 4}).chunks() == 4);

  const auto refused_with = [](std::string_view name, PipelineShape shape, std::string_view words) {
    try {
      (void)make_table(name, shape);
    } catch (const InputError& error) {
      CAPTURE(std::string(error.what()));
      CHECK(std::string_view(error.what()).find(words) != std::string_view::npos);
      return;
    }
    FAIL_CHECK("not refused: ", words);
  };
  refused_with("2f2b", {2, 2},
               "no schedule is called 2f2b; there are gpipe, 1f1b, interleaved, bfs, zb-h1, zb-h2, "
               "zb-v, v-half, v-min, dualpipe-v");
  refused_with("gpipe", {2, 2, 3}, "the schedule gpipe has 1 chunk per rank, not 3");
  refused_with("v-min", {2, 2, 3}, "the schedule v-min has 2 chunks per rank, not 3");
  refused_with("1f1b", {0, 2}, "each must be 1 or more");
  refused_with("1f1b", {2, -1}, "each must be 1 or more");
  refused_with("1f1b", {1 << 30, 1 << 30}, "is larger than");
  refused_with("bfs", {1 << 20, 1 << 20, 1 << 20}, "is larger than");

  CHECK(refusal<Interleaved<2, 3>>({3, 8}).empty());
  CHECK(refusal<Interleaved<1, 3>>({4, 8}).empty());
  CHECK_FALSE(refusal<Interleaved<2, 3>>({4, 8}).empty());
  CHECK_THROWS_WITH_AS((void)(make_table<Interleaved<2, 3>>({4, 8})),
                       "the schedule interleaved can't do 4 ranks, 8 microbatches and 2 chunks: groups of fewer "
                       "microbatches than there are ranks deadlock",
                       InputError);
}
