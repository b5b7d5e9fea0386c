// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstring>
#include <kerkis/kerkis.hpp>
#include <limits>
#include <string>
#include <vector>

#include "equivalence.hpp"

namespace kk = kerkis;
using namespace equivalence;

namespace {

using Plan = DynamicPlan<kk::DynamicSchedule>;

int allocations = 0;
void count_allocation(const Kokkos_Profiling_SpaceHandle, const char*, const void*, std::uint64_t) { ++allocations; }

/// A plan that uses as many axes as the number of ranks has room for.
kk::Mesh<Plan> some_mesh(MPI_Comm ranks) {
  int size = 0;
  MPI_Comm_size(ranks, &size);
  return kk::Mesh<Plan>(ranks, kk::tensor(size == 4 ? 2 : 1), kk::pipeline(size % 2 == 0 ? 2 : 1));
}

/// A model on a mesh with its trainer and batches.
template <class T = double>
struct Fixture {
  explicit Fixture(const kk::Mesh<Plan>& grid, Case which = {.name = "trainer", .pipeline = scheduled("1f1b")})
      : mesh(grid), c(which), model(mesh, c.model, c.pipeline),
        trainer(mesh, model, kk::optim::AdamW{.learning_rate = 3e-4},
                {.microbatches = c.microbatches, .clip = c.clip, .seed = 3}),
        batches(c, kk::partition(c.batch, mesh.extent<kk::axis::Data>(), mesh.coordinate<kk::axis::Data>())) {}

  std::vector<double> values() const {
    std::vector<double> all;
    for (const auto* parameter : trainer.store().parameters()) {
      const auto held = on_host(parameter->value);
      for (std::size_t i = 0; i < held.extent(0); ++i) all.push_back(static_cast<double>(held(i)));
    }
    return all;
  }

  const kk::Mesh<Plan>& mesh;
  Case c;
  kk::nn::Gpt<T, Plan> model;
  kk::Trainer<Plan, kk::Placement<>, kk::nn::Gpt<T, Plan>, kk::optim::AdamW> trainer;
  Batches batches;
};

/// The largest minus the smallest of a number over the ranks.
double spread(const kk::Communicator& world, double mine) {
  Kokkos::View<double[2], Kokkos::HostSpace> extremes("extremes");
  extremes(0) = mine;
  extremes(1) = -mine;
  kk::all_reduce(Space(), world, extremes, {.operation = kk::Reduction::maximum}).wait();
  return extremes(0) + extremes(1);
}

}  // namespace

TEST_CASE("steady-state steps allocate no View") {
  const auto mesh = some_mesh(MPI_COMM_WORLD);
  Case c{.name = "allocations", .pipeline = scheduled("1f1b")};
  c.model.dropout = 0.1;
  Fixture f(mesh, c);
  for (std::uint32_t step = 0; step < 2; ++step) f.trainer.step(f.batches(step));
  allocations = 0;
  Kokkos::Tools::Experimental::set_allocate_data_callback(count_allocation);
  for (std::uint32_t step = 2; step < 5; ++step) f.trainer.step(f.batches(step));
  const int counted = allocations;
  const Kokkos::View<int*> one("the callback counts", 1);
  Kokkos::Tools::Experimental::set_allocate_data_callback(nullptr);
  CHECK(counted == 0);
  CHECK(allocations == 1);
}

TEST_CASE("replicas are bit-equal after 20 steps") {
  const kk::Communicator world(MPI_COMM_WORLD);
  const kk::Mesh<Plan> mesh(MPI_COMM_WORLD, kk::tensor(1), kk::pipeline(1));
  Fixture<float> f(mesh);
  for (std::uint32_t step = 0; step < 20; ++step) f.trainer.step(f.batches(step));
  std::uint64_t hash = 14695981039346656037u;
  for (const double value : f.values()) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * 1099511628211u;
  }
  CHECK(spread(world, static_cast<double>(hash >> 16)) == 0);
}

TEST_CASE("initial weights are the same bits for every plan") {
  const auto mesh = some_mesh(MPI_COMM_WORLD);
  const kk::Mesh<Plan> alone(MPI_COMM_SELF, kk::tensor(1), kk::pipeline(1));
  Fixture ours(mesh), serial(alone);
  for (const auto* parameter : ours.trainer.store().parameters()) {
    const auto held = on_host(parameter->value), whole = on_host(serial.trainer.store().at(parameter->name).value);
    std::int64_t different = 0;
    for (std::int64_t i = 0; i < parameter->size(); ++i)
      if (held(static_cast<std::size_t>(i)) != whole(static_cast<std::size_t>(parameter->global_index(i)))) ++different;
    CHECK_MESSAGE(different == 0, parameter->name);
  }
}

TEST_CASE("validation and generation are those of one rank, and leave training as it is") {
  const auto mesh = some_mesh(MPI_COMM_WORLD);
  const kk::Mesh<Plan> alone(MPI_COMM_SELF, kk::tensor(1), kk::pipeline(1));
  Case c{.name = "evaluate"};
  c.model.dropout = 0.1;
  c.batch = 11;  // more than the microbatches of a step hold
  for (const kk::PipelineOptions& pipeline : {scheduled("1f1b"), scheduled("zb-v"), scheduled("interleaved", 3)}) {
    c.pipeline = pipeline;
    Fixture ours(mesh, c), serial(alone, c);
    const std::vector<double> before = ours.values();
    const double loss = ours.trainer.evaluate(ours.batches(1));
    CHECK(std::abs(loss - serial.trainer.evaluate(serial.batches(1))) <= 1e-12 * loss);
    kk::nn::Generator generate(mesh, ours.model), generate_alone(alone, serial.model);
    for (const double temperature : {0.0, 1.0}) {
      const kk::nn::GenerateOptions options{.tokens = 12, .temperature = temperature, .seed = 5};
      CHECK(generate(ours.trainer.context(kk::Mode::evaluation), {1, 2}, options) ==
            generate_alone(serial.trainer.context(kk::Mode::evaluation), {1, 2}, options));
    }
    // Several at once, fewer and more than stages: as each would be alone, with the seed of its place.
    kk::nn::GenerateOptions options{.tokens = 5, .seed = 5};
    for (const std::size_t prompts : {std::size_t{2}, std::size_t{13}}) {
      std::vector<std::vector<std::int32_t>> texts;
      for (std::size_t i = 0; i < prompts; ++i) texts.emplace_back(1 + i % 5, static_cast<std::int32_t>(i));
      const auto together = generate.together(ours.trainer.context(kk::Mode::evaluation), texts, options);
      CHECK(together.size() == prompts);
      for (std::size_t i = 0; i < together.size(); ++i)
        CHECK(together[i] == generate_alone(serial.trainer.context(kk::Mode::evaluation), texts[i],
                                            {.tokens = options.tokens, .seed = options.seed + i}));
    }
    CHECK(generate.together(ours.trainer.context(kk::Mode::evaluation), {}, options).empty());
    options.tokens = 150;  // more than one pass has
    CHECK(generate(ours.trainer.context(kk::Mode::evaluation), {3}, options) ==
          generate_alone(serial.trainer.context(kk::Mode::evaluation), {3}, options));
    CHECK(ours.values() == before);
    CHECK(std::abs(ours.trainer.step(ours.batches(0)).loss - serial.trainer.step(serial.batches(0)).loss) <=
          1e-11 * loss);
  }
}

TEST_CASE("a loss that is not finite changes nothing and is an error on every rank") {
  const auto mesh = some_mesh(MPI_COMM_WORLD);
  Fixture f(mesh);
  f.trainer.step(f.batches(0));
  for (const auto* parameter : f.trainer.store().parameters())
    if (parameter->name == "blocks.0.norm1.gain")
      Kokkos::deep_copy(Kokkos::subview(parameter->value, 0), std::numeric_limits<double>::quiet_NaN());
  const std::vector<double> before = f.values();
  std::string text;
  try {
    // In two halves, so that the communicator outlives the error.
    f.trainer.apply_gradients(f.trainer.compute_gradients(f.batches(1)));
  } catch (const kk::Error& error) {
    text = error.what();
  }
  CHECK(text.find("step 2: the loss is") != std::string::npos);
  const std::vector<double> after = f.values();
  REQUIRE(before.size() == after.size());
  CHECK(std::memcmp(before.data(), after.data(), before.size() * sizeof(double)) == 0);
}

TEST_CASE("a step without targets is skipped") {
  const auto mesh = some_mesh(MPI_COMM_WORLD);
  Fixture f(mesh);
  const auto batch = f.batches(0);
  const Kokkos::View<std::int32_t*, Space> none("none", batch.targets.extent(0));
  Kokkos::deep_copy(none, -1);
  const std::vector<double> before = f.values();
  const kk::StepReport report = f.trainer.step({batch.tokens, none, batch.first_sample});
  CHECK(report.weight == 0);
  CHECK(report.loss == 0);
  CHECK(f.values() == before);
}

TEST_CASE("a token or target outside the vocabulary") {
  for (const bool is_target : {false, true}) {
    const auto mesh = some_mesh(MPI_COMM_WORLD);
    Fixture f(mesh);
    const auto batch = f.batches(0);
    const Kokkos::View<std::int32_t*, Space> wrong("wrong", batch.tokens.extent(0));
    Kokkos::deep_copy(wrong, is_target ? batch.targets : batch.tokens);
    if (wrong.extent(0) > 0) Kokkos::deep_copy(Kokkos::subview(wrong, 0), 64);
    std::string text;
    try {
      f.trainer.step({is_target ? batch.tokens : wrong, is_target ? wrong : batch.targets, batch.first_sample});
    } catch (const kk::Error& error) {
      text = error.what();
    }
    CHECK(text.find(is_target ? "a target is 64, outside the vocabulary of 64"
                              : "a token is 64, outside the vocabulary of 64") != std::string::npos);
  }
}

TEST_CASE("what one rank throws in a step is what the others report") {
  const kk::Communicator world(MPI_COMM_WORLD);
  const auto mesh = some_mesh(MPI_COMM_WORLD);
  Fixture f(mesh);
  auto batch = f.batches(0);
  const bool is_culprit = world.rank() == world.size() - 1;
  if (is_culprit) batch.tokens = {};  // fewer tokens than targets
  std::string text;
  try {
    f.trainer.step(batch);
  } catch (const kk::Error& error) {
    text = error.what();
  }
  const std::string expected = " targets are not whole sequences of 8";
  CHECK(text.find(expected) != std::string::npos);
  CHECK((text.find(kk::message("rank ", world.size() - 1, ": ")) == 0) == !is_culprit);
}

TEST_CASE("options that make no sense") {
  const auto mesh = some_mesh(MPI_COMM_WORLD);
  Case c{.name = "bad", .pipeline = scheduled("1f1b")};
  c.model.heads = 5;
  CHECK_THROWS_WITH_AS(Fixture(mesh, c), "gpt: width 32 is not a multiple of 5 heads", kk::InputError);
  c.model.heads = 4;
  c.clip = -1;
  CHECK_THROWS_AS(Fixture(mesh, c), kk::InputError);
  c.clip = 0;
  c.microbatches = -3;
  CHECK_THROWS_AS(Fixture(mesh, c), kk::InputError);
  kk::nn::Gpt<double, Plan> model(mesh, Case{.name = ""}.model, scheduled("1f1b"));
  kk::Trainer trainer(mesh, model, kk::optim::Sgd{});
  kk::nn::Generator generate(mesh, model);
  CHECK_THROWS_AS(generate(trainer.context(kk::Mode::evaluation), {64}, {}), kk::InputError);
  CHECK_THROWS_AS(generate(trainer.context(kk::Mode::evaluation), {}, {}), kk::InputError);
  CHECK_THROWS_AS(generate(trainer.context(kk::Mode::evaluation), {1}, {.tokens = -1}), kk::InputError);
  CHECK_THROWS_AS(generate.together(trainer.context(kk::Mode::evaluation), {{1}, {}}, {}), kk::InputError);
}
