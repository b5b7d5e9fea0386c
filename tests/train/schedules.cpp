// SPDX-License-Identifier: Apache-2.0
// The same numbers under every schedule, for every number of microbatches and of chunks, with and without
// recomputation and post-validation.

#include <doctest/doctest.h>

#include <cstdlib>
#include <kerkis/kerkis.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "equivalence.hpp"

namespace kk = kerkis;
using namespace equivalence;

namespace {

using Plan = DynamicPlan<kk::DynamicSchedule>;

/// More stages than layers in some runs, more microbatches than sequences in others. The first of its steps is clipped,
/// the next two are not.
Case small(bool tied, int steps) {
  return {.name = tied ? "tied" : "untied",
          .model = {.layers = 5, .heads = 3, .width = 12, .context = 5, .vocabulary = 31, .dropout = 0.1, .tied = tied},
          .batch = 7,
          .clip = 2.1,
          .steps = steps};
}

bool is_whole() {
  const char* all = std::getenv("KERKIS_TEST_ALL");
  return all != nullptr && *all == '1';
}

std::vector<std::string_view> names() {
  std::vector<std::string_view> all(std::begin(kk::schedule::Known::names), std::end(kk::schedule::Known::names));
  all.push_back(kk::Automatic::name);
  return all;
}

bool has_chunks(std::string_view schedule) { return schedule == "interleaved" || schedule == "bfs"; }

constexpr kk::Recomputation recomputations[] = {kk::Recomputation::none(), kk::Recomputation::full(),
                                                kk::Recomputation::every(2)};
const kk::LayerCosts costs[] = {{}, {.layers = {1, 3, 1, 2, 1}, .before = 0.5, .after = 2}};

/// A V whose first chunk computes all gradients of its weights before the second one does.
struct WeightsFromTheFront {
  static constexpr std::string_view name = "weights-from-the-front";
  static constexpr int chunks = 2;

  static constexpr int stage(kk::PipelineShape shape, int rank, int chunk) {
    return chunk == 0 ? rank : 2 * shape.ranks - 1 - rank;
  }
  static constexpr void order(kk::PipelineShape shape, int, kk::ActionList& list) {
    for (const int chunk : {0, 1})
      for (int m = 0; m < shape.microbatches; ++m) list.forward(m, chunk);
    for (const int chunk : {1, 0})
      for (int m = 0; m < shape.microbatches; ++m) list.backward_input(m, chunk);
    for (const int chunk : {0, 1})
      for (int m = 0; m < shape.microbatches; ++m) list.backward_weight(m, chunk);
  }
};

int allocations = 0;
void count_allocation(const Kokkos_Profiling_SpaceHandle, const char*, const void*, std::uint64_t) { ++allocations; }

/// Runs cases against the serial traces, which are made once.
struct Comparison {
  explicit Comparison(int steps) {
    for (const bool tied : {false, true}) {
      cases.push_back(small(tied, steps));
      references.push_back(serial<double, kk::DynamicSchedule>(world, cases.back()));
    }
  }

  void check(const kk::Mesh<Plan>& mesh, std::string_view schedule, int chunks, int microbatches, std::size_t tied,
             std::size_t recompute, std::size_t cost, bool post_validation) {
    Case c = cases[tied];
    c.microbatches = microbatches;
    c.pipeline = scheduled(schedule, chunks);
    c.pipeline.recompute = recomputations[recompute];
    c.pipeline.costs = costs[cost];
    c.post_validation = post_validation;
    double losses = 0, norms = 0, parameters = 0;
    const bool same = equal<double>(train<double>(mesh, c), references[tied], losses, norms, parameters);
    CHECK_MESSAGE(same, schedule, ", ", mesh.description(), ", ", microbatches, " microbatches, ", chunks, " chunks, ",
                  c.name, ", recomputation ", recompute, ", costs ", cost, post_validation ? ", post-validation" : "",
                  ": losses differ by ", losses, ", norms by ", norms, ", parameters by ", parameters);
    ++runs;
  }

  const kk::Communicator world{MPI_COMM_WORLD};
  std::vector<Case> cases;
  std::vector<Trace> references;
  int runs = 0;
};

}  // namespace

// Every schedule meets every number of microbatches; what else there is to choose goes round, so that each choice meets
// every schedule and every number of microbatches. KERKIS_TEST_ALL=1 runs the whole product, for 20 steps.
TEST_CASE("schedules") {
  Comparison compare(is_whole() ? 20 : 3);
  const auto ranks = static_cast<std::size_t>(compare.world.size());
  const kk::Mesh<Plan> mesh(compare.world.native(), kk::tensor(ranks == 8 ? std::size_t{2} : 1),
                            kk::pipeline(ranks == 8 ? 2 : ranks));
  std::size_t s = 0;
  for (const std::string_view schedule : names()) {
    for (int microbatches = 1; microbatches <= 9; ++microbatches) {
      const auto m = static_cast<std::size_t>(microbatches);
      if (!is_whole() && ranks == 8 && (s + m) % 4 != 0) continue;
      for (int chunks = 1; chunks <= (has_chunks(schedule) ? 3 : 1); ++chunks) {
        if (is_whole()) {
          for (std::size_t tied = 0; tied < 2; ++tied)
            for (std::size_t recompute = 0; recompute < 3; ++recompute)
              for (std::size_t cost = 0; cost < 2; ++cost)
                compare.check(mesh, schedule, chunks, microbatches, tied, recompute, cost, compare.runs % 2 == 0);
        } else if (!has_chunks(schedule) || chunks == 1 + static_cast<int>((s + m) % 3)) {
          compare.check(mesh, schedule, chunks, microbatches, (s + m) % 2, (s + m / 2) % 3, (s + m / 4) % 2,
                        (s / 2 + m) % 2 == 0);
        }
      }
    }
    ++s;
  }
  MESSAGE(compare.runs, " runs");
}

TEST_CASE("a table that two stages of a rank share is reduced when both are done") {
  Comparison compare(3);
  const kk::Mesh<Plan> mesh(compare.world.native(), kk::tensor(1), kk::pipeline(1));
  Case c = compare.cases[1];
  c.microbatches = 2;
  c.pipeline = {.schedule = kk::schedule::Chosen::of<WeightsFromTheFront>()};
  double losses = 0, norms = 0, parameters = 0;
  CHECK(equal<double>(train<double>(mesh, c), compare.references[1], losses, norms, parameters));
}

TEST_CASE("steps allocate no View, recomputation and split backward passes included") {
  const kk::Communicator world(MPI_COMM_WORLD);
  const kk::Mesh<Plan> mesh(world.native(), kk::tensor(1), kk::pipeline(static_cast<std::size_t>(world.size())));
  for (const kk::Recomputation recompute : recomputations) {
    Case c = small(true, 4);
    c.microbatches = 5;
    c.pipeline = scheduled("zb-v");
    c.pipeline.recompute = recompute;
    kk::nn::Gpt<double, Plan> model(mesh, c.model, c.pipeline);
    kk::Trainer trainer(mesh, model, kk::optim::AdamW{.learning_rate = 3e-4}, {.microbatches = c.microbatches});
    const Batches batches(c, {0, c.batch});
    trainer.step(batches(0));
    const auto first = batches(1), second = batches(2);
    allocations = 0;
    Kokkos::Tools::Experimental::set_allocate_data_callback(count_allocation);
    trainer.step(first);
    trainer.step(second);
    Kokkos::Tools::Experimental::set_allocate_data_callback(nullptr);
    CHECK(allocations == 0);
  }
}

TEST_CASE("measured costs are the same numbers on every rank") {
  const kk::Communicator world(MPI_COMM_WORLD);
  const kk::Mesh<Plan> mesh(world.native(), kk::tensor(1), kk::pipeline(static_cast<std::size_t>(world.size())));
  Case c = small(true, 3);
  const kk::LayerCosts measured = kk::nn::measure_costs<double>(mesh, c.model, 2 * c.model.context);
  REQUIRE(measured.layers.size() == 5);
  Kokkos::View<double[6], Kokkos::HostSpace> extremes("extremes");
  const double mine[3] = {measured.layers.front(), measured.before, measured.after};
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(mine[i] > 0);
    extremes(i) = mine[i];
    extremes(3 + i) = -mine[i];
  }
  kk::all_reduce(Space(), world, extremes, {.operation = kk::Reduction::maximum}).wait();
  for (std::size_t i = 0; i < 3; ++i) CHECK(extremes(i) + extremes(3 + i) == 0);
  c.pipeline = scheduled("zb-v");
  c.pipeline.costs = measured;
  c.microbatches = 3;
  double losses = 0, norms = 0, parameters = 0;
  CHECK(
      equal<double>(train<double>(mesh, c), serial<double, kk::DynamicSchedule>(world, c), losses, norms, parameters));
}

TEST_CASE("choices that make no sense") {
  const kk::Communicator world(MPI_COMM_WORLD);
  const kk::Mesh<Plan> mesh(world.native(), kk::tensor(1), kk::pipeline(static_cast<std::size_t>(world.size())));
  using Model = kk::nn::Gpt<double, Plan>;
  const kk::nn::GptConfig config = small(false, 1).model;
  CHECK_THROWS_WITH_AS(Model(mesh, config), "the plan leaves its schedule open: one must be chosen in PipelineOptions",
                       kk::InputError);
  CHECK_THROWS_WITH_AS(Model(mesh, config, scheduled("zb-v", 3)), "the schedule zb-v has 2 chunks per rank, not 3",
                       kk::InputError);
  CHECK_THROWS_AS(Model(mesh, config, scheduled("interleaved", 0)), kk::InputError);
  CHECK_THROWS_AS(scheduled("zb-w"), kk::InputError);
  kk::PipelineOptions options = scheduled("1f1b");
  options.costs.layers = {1, 2};
  CHECK_THROWS_WITH_AS(Model(mesh, config, options), "costs of 2 layers for 5", kk::InputError);
  options.costs.layers = {1, 2, -1, 1, 1};
  CHECK_THROWS_AS(Model(mesh, config, options), kk::InputError);
  options = scheduled("1f1b");
  options.recompute = kk::Recomputation{-1};
  CHECK_THROWS_AS(Model(mesh, config, options), kk::InputError);
}
