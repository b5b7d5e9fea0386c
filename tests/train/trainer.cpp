// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstring>
#include <kerkis/kerkis.hpp>
#include <limits>
#include <string>
#include <vector>

#include "../comm/thrown.hpp"
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

TEST_CASE("options that are not the same on all ranks") {
  const auto mesh = some_mesh(MPI_COMM_WORLD);
  const kk::Communicator& world = mesh.world();
  const bool other = world.size() > 1 && world.rank() == world.size() - 1;
  const auto differs = [&](const char* what, const auto& first, const auto& last) {
    if (world.size() == 1) return std::string("nothing");
    return kk::message(what, " must be the same on all ranks: ", first, " on rank 0, ", last, " on rank ",
                       world.size() - 1);
  };
  using Model = kk::nn::Gpt<double, Plan>;
  const kk::nn::GptConfig config = Case{.name = ""}.model;
  kk::nn::GptConfig changed = config;
  if (other) changed.layers = 6;
  CHECK(thrown<kk::InputError>([&] { Model(mesh, changed, scheduled("1f1b")); }) == differs("gpt: layers", 4, 6));
  changed = config;
  if (other) changed.heads = 5;  // which makes no sense either
  CHECK(thrown<kk::InputError>([&] { Model(mesh, changed, scheduled("1f1b")); }) == differs("gpt: heads", 4, 5));
  changed = config;
  if (other) changed.tied = false;
  CHECK(thrown<kk::InputError>([&] { Model(mesh, changed, scheduled("1f1b")); }) == differs("gpt: tied", 1, 0));
  CHECK(thrown<kk::InputError>([&] { Model(mesh, config, scheduled(other ? "gpipe" : "1f1b")); }) ==
        differs("gpt: schedule", "1f1b", "gpipe"));

  Model model(mesh, config, scheduled("1f1b"));
  CHECK(thrown<kk::InputError>([&] { kk::Trainer(mesh, model, kk::optim::Sgd{}, {.seed = other ? 2u : 1u}); }) ==
        differs("trainer: seed", 1, 2));
  CHECK(thrown<kk::InputError>([&] { kk::Trainer(mesh, model, kk::optim::Sgd{}, {.microbatches = other ? 3 : 4}); }) ==
        differs("trainer: microbatches", 4, 3));
  CHECK(thrown<kk::InputError>([&] { kk::Trainer(mesh, model, kk::optim::AdamW{.beta1 = other ? 0.5 : 0.25}); }) ==
        differs("trainer: the optimizer's beta1", 0.25, 0.5));

  kk::Trainer trainer(mesh, model, kk::optim::Sgd{});  // and nothing is broken
  kk::nn::Generator generate(mesh, model);
  auto context = trainer.context(kk::Mode::evaluation);
  CHECK(thrown<kk::InputError>([&] { generate(context, {1}, {.tokens = other ? 0 : 8}); }) ==
        differs("generate: tokens", 8, 0));
  CHECK(thrown<kk::InputError>([&] {
          generate.together(context, std::vector<std::vector<std::int32_t>>(other ? 2 : 1, {1}), {});
        }) == differs("generate: the number of prompts", 1, 2));
  const std::string text = thrown<kk::InputError>([&] { generate(context, {1, other ? 3 : 2}, {}); });
  CHECK(text.starts_with("generate: the prompts' checksum must be the same") == (world.size() > 1));
  CHECK(generate(context, {1}, {.tokens = 3}).size() == 3);
}

TEST_CASE("learning rates that make no sense") {
  const auto mesh = some_mesh(MPI_COMM_WORLD);
  kk::nn::Gpt<double, Plan> model(mesh, Case{.name = ""}.model, scheduled("1f1b"));
  for (const double rate : {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    CHECK(thrown<kk::InputError>([&] {
            kk::Trainer(mesh, model, kk::optim::AdamW{.learning_rate = rate});
          }).starts_with("trainer: the optimizer's learning_rate is "));
    CHECK(thrown<kk::InputError>([&] {
            kk::Trainer(mesh, model, kk::optim::Sgd{.learning_rate = rate});
          }).starts_with("trainer: the optimizer's learning_rate is "));
  }
}

TEST_CASE("a batch of sequences that are not the model's") {
  const auto mesh = some_mesh(MPI_COMM_WORLD);
  Fixture f(mesh);
  kk::TokenLoader loader(mesh, std::vector<std::uint8_t>(100), {.batch = 16, .context = 4});
  const std::string text = thrown<kk::Error>([&] { f.trainer.step(loader.load(0)); });
  CHECK(text.find("a batch has sequences of 4 tokens, but the model's context is 8") != std::string::npos);
}

TEST_CASE("a model without memory can't generate") {
  const auto mesh = some_mesh(MPI_COMM_WORLD);
  kk::nn::Gpt<double, Plan> model(mesh, Case{.name = ""}.model, scheduled("1f1b"));
  kk::nn::Generator generate(mesh, model);
  kk::Workspace<Space> workspace;
  const kk::Context<Space> context{Space(), workspace, mesh.world()};
  CHECK(thrown<kk::InputError>([&] { generate(context, {1}, {}); }).find("has no memory: make a Trainer") !=
        std::string::npos);
}

TEST_CASE("a text goes on as if it had been continued at once") {
  const auto mesh = some_mesh(MPI_COMM_WORLD);
  Fixture f(mesh);
  kk::nn::Generator generate(mesh, f.model);
  const auto context = f.trainer.context(kk::Mode::evaluation);
  std::vector<std::int32_t> text{1, 2}, whole = generate(context, text, {.tokens = 14});
  for (const std::int64_t tokens : {5, 9})
    for (const std::int32_t token : generate(context, text, {.tokens = tokens})) text.push_back(token);
  CHECK(std::vector<std::int32_t>(text.begin() + 2, text.end()) == whole);
}
