// SPDX-License-Identifier: Apache-2.0
// Every schedule of the library's, and a user's, runs a stage that is no neural network.

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <kerkis/comm/all_gather.hpp>
#include <kerkis/schedule/automatic.hpp>
#include <kerkis/schedule/registry.hpp>

#include "../schedule/schedules.hpp"
#include "waves.hpp"

using namespace waves;

namespace {

struct Result {
  kk::LossSum loss;
  std::vector<double> gradients;          ///< of this rank's stages, by chunk
  std::vector<int> ready;                 ///< chunks in the order in which they were said to be ready
  std::vector<kk::schedule::Live> peaks;  ///< by chunk, then of all
};

Result run(const kk::Communicator& pipeline, const kk::schedule::Table& table, int steps) {
  Stages<Wave> stages(table, pipeline.rank());
  kk::ParameterStore<double, Space> store(stages, 0);
  store.initialise(1);
  kk::PipelineExecutor<Wave> executor(pipeline, table, stages.pointers(), 4);
  kk::Workspace<Space> workspace;
  const std::vector<Samples> samples = make_samples(table.microbatches());
  Result result;
  for (int step = 0; step < steps; ++step) {
    result = {};
    Kokkos::deep_copy(store.gradients(), 0);
    if (step > 0)  // leaves no trace
      executor.train(
          context(pipeline, workspace), samples, [](int, const auto&) { CHECK(false); }, [] { return false; });
    result.loss = executor.train(context(pipeline, workspace), samples,
                                 [&](int chunk, const auto&) { result.ready.push_back(chunk); });
  }
  for (int chunk = 0; chunk < table.chunks(); ++chunk) result.peaks.push_back(executor.peak(chunk));
  result.peaks.push_back(executor.peak());
  for (const auto* parameter : store.parameters())
    for (std::int64_t c = 0; c < columns; ++c)
      result.gradients.push_back(parameter->gradient(static_cast<std::size_t>(c)));
  const kk::LossSum evaluated = executor.evaluate(context(pipeline, workspace, kk::Mode::evaluation), samples);
  CHECK(std::abs(evaluated.sum - result.loss.sum) <= 1e-12);
  CHECK(evaluated.weight == result.loss.weight);
  return result;
}

/// Compares a table with all stages on one rank.
void check(const kk::Communicator& world, std::string_view name, const kk::schedule::Table& table, int steps = 2) {
  INFO(name, ", ", table.ranks(), " ranks, ", table.microbatches(), " microbatches, ", table.chunks(), " chunks");
  const Result result = run(world, table, steps);
  const Result expected = run(
      kk::Communicator(), kk::schedule::make_table<user::BreadthFirst>({1, table.microbatches(), table.stages()}), 1);
  for (int chunk = 0; chunk < table.chunks(); ++chunk) {
    const int stage = table.stage(world.rank(), chunk);
    for (std::int64_t c = 0; c < columns; ++c) {
      const double a = result.gradients[static_cast<std::size_t>(chunk * columns + c)],
                   b = expected.gradients[static_cast<std::size_t>(stage * columns + c)];
      CHECK_MESSAGE(std::abs(a - b) <= 1e-12 * std::abs(b), "stage ", stage, ": ", a, " for ", b);
    }
    if (stage == table.stages() - 1) {
      CHECK(std::abs(result.loss.sum - expected.loss.sum) <= 1e-12);
      CHECK(result.loss.weight == expected.loss.weight);
    }
    // What the verifier says is what happens.
    CHECK(result.peaks[static_cast<std::size_t>(chunk)] == kk::schedule::peak_live(table, world.rank(), chunk));
    CHECK(std::count(result.ready.begin(), result.ready.end(), chunk) == 1);
  }
  CHECK(result.peaks.back() == kk::schedule::peak_live(table, world.rank()));
}

/// Sends what it has not computed yet: every rank begins with the last stage's work.
struct Backwards {
  static constexpr std::string_view name = "backwards";
  static constexpr void order(kk::PipelineShape shape, int, kk::ActionList& list) {
    for (int m = 0; m < shape.microbatches; ++m) list.backward(m);
    for (int m = 0; m < shape.microbatches; ++m) list.forward(m);
  }
};

/// The ranks take the microbatches in different orders: messages overtake each other.
struct Shuffled {
  static constexpr std::string_view name = "shuffled";
  static constexpr void order(kk::PipelineShape shape, int rank, kk::ActionList& list) {
    const int m = shape.microbatches;
    for (int k = 0; k < m; ++k) list.forward(rank % 2 == 0 ? k : m - 1 - k);
    for (int k = 0; k < m; ++k) list.backward(rank % 2 == 0 ? (k + m / 2) % m : k);
  }
};

}  // namespace

TEST_CASE("every schedule by name") {
  const kk::Communicator world(MPI_COMM_WORLD);
  int ran = 0;
  for (const std::string_view name : kk::schedule::Known::names)
    for (int microbatches = 1; microbatches <= 9; ++microbatches)
      for (const int chunks : {1, 2, 3}) {
        kk::schedule::Table table({1, 1, 1}, {});
        try {
          table = kk::schedule::make_table(name, {world.size(), microbatches, chunks});
        } catch (const kk::InputError&) {
          continue;  // a number that it refuses
        }
        check(world, name, table);
        ++ran;
      }
  CHECK(ran >= 90);
}

TEST_CASE("a generated schedule") {
  const kk::Communicator world(MPI_COMM_WORLD);
  for (const int microbatches : {1, 2, 5, 9})
    check(world, "automatic", kk::Automatic{}.table({world.size(), microbatches, 1}));
}

TEST_CASE_TEMPLATE("a user's schedule", Schedule, user::OneByOne, user::ZeroBubble<1, 1>, user::ZeroBubble<2, 2>,
                   user::BreadthFirst, user::GPipeV, Shuffled) {
  const kk::Communicator world(MPI_COMM_WORLD);
  for (const int microbatches : {1, 2, 3, 8})
    check(world, Schedule::name, kk::schedule::make_table<Schedule>({world.size(), microbatches, 1}), 3);
}

TEST_CASE("a recorder sees every computation, and every message from its start to its end") {
  const kk::Communicator world(MPI_COMM_WORLD);
  for (const std::string_view name : {"gpipe", "interleaved", "zb-v"}) {
    const int microbatches = 4, passes = 3;
    const kk::schedule::Table table = kk::schedule::make_table(name, {world.size(), microbatches, 1});
    Stages<Wave> stages(table, world.rank());
    kk::ParameterStore<double, Space> store(stages, 0);
    kk::PipelineExecutor<Wave> executor(world, table, stages.pointers(), 4);
    kk::Workspace<Space> workspace;
    const auto samples = make_samples(microbatches);
    kk::trace::Recorder recorder;
    executor.train(context(world, workspace), samples, [](int, const auto&) {});
    executor.record(&recorder, 1, 2);
    for (int pass = 0; pass < passes; ++pass) {
      executor.train(context(world, workspace), samples, [](int, const auto&) {});
      executor.evaluate(context(world, workspace, kk::Mode::evaluation), samples);
    }
    executor.record(nullptr);
    executor.train(context(world, workspace), samples, [](int, const auto&) {});

    std::map<std::string, int> seen;
    std::vector<std::uint64_t> ends;  // sent, and received with the highest bit
    for (const kk::trace::Event& event : recorder.events()) {
      ++seen[event.name];
      CHECK(event.end >= event.start);
      if (event.sent != 0) ends.push_back(event.sent);
      if (event.received != 0) ends.push_back(event.received | 1ULL << 63);
      if (event.name == std::string("wait")) continue;
      CHECK(event.stage == table.stage(world.rank(), event.chunk));
    }
    int forwards = 0;
    for (const kk::schedule::Action& action : table.actions(world.rank()))
      forwards += kk::schedule::computes_forward(action.kind) ? 1 : 0;
    CHECK(seen["forward"] == 2 * passes * forwards);

    // Each message leaves once and arrives once, on all ranks together.
    const std::size_t most = recorder.events().capacity();
    using Ends = Kokkos::View<std::uint64_t*, Kokkos::HostSpace>;
    const Ends mine("mine", most), all("all", most * static_cast<std::size_t>(world.size()));
    std::copy(ends.begin(), ends.end(), mine.data());
    kk::all_gather(Kokkos::DefaultHostExecutionSpace(), world, mine, all).wait();
    std::map<std::uint64_t, int> balance;
    std::size_t messages = 0;
    for (std::size_t i = 0; i < all.extent(0); ++i) {
      if (all(i) == 0) continue;
      const bool received = (all(i) >> 63) != 0;
      balance[all(i) & ~(1ULL << 63)] += received ? 10 : 1;
      CHECK((all(i) - 1) % 2 == 1);  // the replica
      if (!received) ++messages;
    }
    CHECK(balance.size() == messages);
    for (const auto& [message, count] : balance) CHECK(count == 11);
    const auto of_pass = [&](const kk::schedule::Table& its) {
      return static_cast<std::size_t>(kk::schedule::Communication(its).size());
    };
    CHECK(messages == passes * (of_pass(table) + of_pass(kk::schedule::forward_only(table, microbatches))));
  }
}

TEST_CASE("a table that the verifier rejects does not run") {
  const kk::Communicator world(MPI_COMM_WORLD);
  const kk::schedule::Table table = kk::schedule::make_table<Backwards>({world.size(), 2});
  Stages<Wave> stages(table, world.rank());
  CHECK_THROWS_AS(kk::PipelineExecutor<Wave>(world, table, stages.pointers(), 4), kk::InputError);
}

TEST_CASE("what does not fit is refused before anything is sent") {
  const kk::Communicator world(MPI_COMM_WORLD);
  kk::Workspace<Space> workspace;
  const auto ready = [](int, const auto&) {};
  const kk::schedule::Table table = kk::schedule::make_table<kk::ForwardOnly>({world.size(), 2});
  Stages<Wave> stages(table, world.rank());
  kk::PipelineExecutor<Wave> executor(world, table, stages.pointers(), 4);
  const std::vector<Samples> samples = make_samples(2);
  CHECK_THROWS_AS(executor.train(context(world, workspace), samples, ready), kk::InputError);
  const kk::schedule::Table training = kk::schedule::make_table<kk::OneForwardOneBackward>({world.size(), 3});
  kk::PipelineExecutor<Wave> trains(world, training, stages.pointers(), 4);
  CHECK_THROWS_AS(trains.train(context(world, workspace), samples, ready), kk::InputError);
  const auto make = [&](const kk::schedule::Table& its, std::vector<Wave*> stages_of_rank) {
    kk::PipelineExecutor<Wave>(world, its, std::move(stages_of_rank), 4);
  };
  const std::string ranks = kk::message(" ranks, but 'world' has ", world.size());
  const kk::schedule::Table wider = kk::schedule::make_table<kk::OneForwardOneBackward>({world.size() + 1, 3});
  CHECK_THROWS_WITH_AS(make(wider, stages.pointers()),
                       kk::message("pipeline: the table is for ", world.size() + 1, ranks).c_str(), kk::InputError);
  CHECK_THROWS_WITH_AS(make(training, {}), "pipeline: the table has 1 stages on a rank, but 0 are given",
                       kk::InputError);
  CHECK_THROWS_WITH_AS(make(training, {nullptr}), "pipeline: the table has 1 stages on a rank, but 0 are given",
                       kk::InputError);
  CHECK(!world.poisoned());
}
