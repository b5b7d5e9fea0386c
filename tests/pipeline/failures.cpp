// SPDX-License-Identifier: Apache-2.0
// One error everywhere, and no hang: stages that throw wherever they stand, and messages that are not what was due.

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <kerkis/comm/barrier.hpp>
#include <kerkis/schedule/one_forward_one_backward.hpp>
#include <kerkis/schedule/zero_bubble_h1.hpp>

#include "waves.hpp"

using namespace waves;

namespace {

/// What `f` and a barrier throw on this rank; the deadline is short, so that a hang is told from an error.
template <class F>
std::string error_of(F&& f) {
  const kk::Communicator world(MPI_COMM_WORLD, "world", {.wait = {.deadline = std::chrono::seconds(60)}});
  try {
    world.guard([&] {
      f(world);
      kk::barrier(world).wait();
    });
  } catch (const std::exception& error) {
    return error.what();
  }
  return {};
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

template <class Schedule>
std::string train(int failing_rank, Failure failure) {
  return error_of([&](const kk::Communicator& world) {
    const kk::schedule::Table table = kk::schedule::make_table<Schedule>({world.size(), 3});
    Stages<Wave> stages(table, world.rank());
    kk::ParameterStore<double, Space> store(stages, 0);
    if (world.rank() == failing_rank) stages.stages[0]->fails = failure;
    kk::PipelineExecutor<Wave> executor(world, table, stages.pointers(), 4);
    kk::Workspace<Space> workspace;
    executor.train(context(world, workspace), make_samples(3), [](int, const auto&) {});
  });
}

int ranks() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

/// A stage whose boundaries have as many columns as it is told.
struct Misfit {
  using Element = double;
  using ExecutionSpace = Space;
  using Microbatch = Samples;
  std::int64_t below = 3, above = 3;
  std::int64_t input_columns() const { return below; }
  std::int64_t output_columns() const { return above; }
  void forward(kk::Context<Space>& context, const Samples&, const View&, const View& output) {
    Kokkos::deep_copy(context.execution, output, 0);
  }
};

std::string stream(const std::function<void(const kk::Communicator&, Misfit&, std::vector<Samples>&)>& spoil,
                   std::int64_t rows = 4) {
  return error_of([&](const kk::Communicator& world) {
    Misfit stage;
    std::vector<Samples> samples{{0, 4}, {4, 3}, {7, 4}};
    spoil(world, stage, samples);
    kk::PipelineExecutor<Misfit> executor(
        world, kk::schedule::make_table<kk::ForwardOnly>({world.size(), static_cast<int>(samples.size())}), {&stage},
        rows);
    kk::Workspace<Space> workspace;
    executor.evaluate(context(world, workspace, kk::Mode::evaluation), samples);
  });
}

}  // namespace

TEST_CASE("a stage that throws, at each place, is one error on every rank") {
  using kk::schedule::ActionKind;
  for (int rank = 0; rank < ranks(); ++rank)
    for (const int microbatch : {0, 2}) {
      for (const ActionKind kind : {ActionKind::forward, ActionKind::backward}) {
        const std::string text = train<kk::OneForwardOneBackward>(rank, {kind, microbatch});
        CHECK_MESSAGE(contains(text, "the wave breaks"), rank, " ", to_string(kind), ": ", text);
      }
      for (const ActionKind kind : {ActionKind::backward_input, ActionKind::backward_weight}) {
        const std::string text = train<kk::ZeroBubbleH1>(rank, {kind, microbatch});
        CHECK_MESSAGE(contains(text, "the wave breaks"), rank, " ", to_string(kind), ": ", text);
      }
    }
}

TEST_CASE("a single rank goes on after what its stage has thrown") {
  const kk::Communicator alone;
  const kk::schedule::Table table = kk::schedule::make_table<kk::ZeroBubbleH1>({1, 3});
  Stages<Wave> stages(table, 0);
  kk::ParameterStore<double, Space> store(stages, 0);
  kk::PipelineExecutor<Wave> executor(alone, table, stages.pointers(), 4);
  kk::Workspace<Space> workspace;
  const auto samples = make_samples(3);
  const auto ready = [](int, const auto&) {};
  for (const auto kind : {kk::schedule::ActionKind::forward, kk::schedule::ActionKind::backward_input,
                          kk::schedule::ActionKind::backward_weight}) {
    stages.stages[0]->fails = {kind, 1};
    CHECK_THROWS(executor.train(context(alone, workspace), samples, ready));
    stages.stages[0]->fails = {};
    CHECK_NOTHROW(executor.train(context(alone, workspace), samples, ready));
  }
}

TEST_CASE("a message that is not what was due is an error on every rank") {
  if (ranks() == 1) return;
  const auto last = [](const kk::Communicator& world) { return world.rank() + 1 == world.size(); };
  SUBCASE("nothing is wrong") {
    CHECK(stream([](const kk::Communicator&, Misfit&, std::vector<Samples>&) {}).empty());
  }
  SUBCASE("another microbatch") {
    const std::string text = stream([&](const kk::Communicator& world, Misfit&, std::vector<Samples>& samples) {
      if (last(world)) std::swap(samples[0], samples[2]);
    });
    CHECK_MESSAGE(contains(text, "the activation of microbatch 0 (first sample 0)"), text);
    CHECK_MESSAGE(contains(text, "the activation of microbatch 0 (first sample 7)"), text);
  }
  SUBCASE("fewer rows") {
    const std::string text = stream([&](const kk::Communicator& world, Misfit&, std::vector<Samples>& samples) {
      if (last(world)) samples[1].count = 4;
    });
    CHECK_MESSAGE(contains(text, "3 x 3"), text);
    CHECK_MESSAGE(contains(text, "4 x 3"), text);
  }
  SUBCASE("fewer columns") {
    const std::string text = stream([&](const kk::Communicator& world, Misfit& stage, std::vector<Samples>&) {
      if (last(world)) stage.below = 4;
    });
    CHECK_MESSAGE(contains(text, "4 x 3"), text);
    CHECK_MESSAGE(contains(text, "4 x 4"), text);
  }
  SUBCASE("fewer than none") {
    const auto of_rows = stream([](const kk::Communicator&, Misfit&, std::vector<Samples>&) {}, -3);
    const auto of_one =
        stream([](const kk::Communicator&, Misfit&, std::vector<Samples>& samples) { samples[0].count = -1; });
    const auto of_columns =
        stream([](const kk::Communicator&, Misfit& stage, std::vector<Samples>&) { stage.below = -3; });
    CHECK_MESSAGE(contains(of_rows, "microbatches of -3 rows"), of_rows);
    CHECK_MESSAGE(contains(of_one, "a microbatch of -1 rows"), of_one);
    CHECK_MESSAGE(contains(of_columns, "-3 columns"), of_columns);
  }
  SUBCASE("more than there is room for") {
    const std::string text = stream([&](const kk::Communicator& world, Misfit& stage, std::vector<Samples>&) {
      if (last(world)) stage.below = 1;
    });
    CHECK_MESSAGE(contains(text, "receive"), text);
  }
  SUBCASE("another pass") {
    const std::string text = error_of([&](const kk::Communicator& world) {
      Misfit stage;
      kk::Workspace<Space> workspace;
      const std::vector<Samples> samples{{0, 4}, {4, 3}};
      kk::PipelineExecutor<Misfit> executor(world, kk::schedule::make_table<kk::ForwardOnly>({world.size(), 2}),
                                            {&stage}, 4);
      if (last(world)) {
        kk::PipelineExecutor<Misfit> another(world, kk::schedule::make_table<kk::ForwardOnly>({world.size(), 2}),
                                             {&stage}, 4);
        another.evaluate(context(world, workspace, kk::Mode::evaluation), samples);
        another.evaluate(context(world, workspace, kk::Mode::evaluation), samples);
        executor.evaluate(context(world, workspace, kk::Mode::evaluation), samples);
      } else {
        for (int pass = 0; pass < 3; ++pass)
          executor.evaluate(context(world, workspace, kk::Mode::evaluation), samples);
      }
    });
    CHECK_MESSAGE(contains(text, "in pass 3"), text);
    CHECK_MESSAGE(contains(text, "in pass 1"), text);
  }
}
