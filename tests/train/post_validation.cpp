// SPDX-License-Identifier: Apache-2.0
// Steps that are taken before the gradients' norm is known, and validated after.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <kerkis/kerkis.hpp>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "equivalence.hpp"

namespace kk = kerkis;
using namespace equivalence;

namespace {

using Plan = DynamicPlan<kk::DynamicSchedule>;

/// The norms of the case below are on both sides of it, several times.
constexpr double some_norm = 1.9;

Case some_case(std::string_view schedule, int chunks = 1) {
  return {.name = "post-validation",
          .model = {.layers = 5, .heads = 3, .width = 12, .context = 5, .vocabulary = 31, .dropout = 0.1},
          .batch = 7,
          .clip = some_norm,
          .steps = 12,
          .pipeline = scheduled(schedule, chunks),
          .post_validation = true};
}

/// All ranks in the pipeline; of eight, two.
kk::Mesh<Plan> some_mesh() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return kk::Mesh<Plan>(MPI_COMM_WORLD, kk::tensor(size == 8 ? 2 : 1),
                        kk::pipeline(size == 8 ? 2 : static_cast<std::size_t>(size)));
}

template <class Optimizer = kk::optim::AdamW>
struct Fixture {
  using Model = kk::nn::Gpt<double, Plan>;
  using Trainer = kk::Trainer<Plan, kk::Placement<>, Model, Optimizer>;

  Fixture(const kk::Mesh<Plan>& grid, const Case& which)
      : mesh(grid), c(which), model(mesh, c.model, c.pipeline),
        batches(c, kk::partition(c.batch, mesh.extent<kk::axis::Data>(), mesh.coordinate<kk::axis::Data>())) {
    Optimizer optimizer;
    optimizer.learning_rate = 3e-3;
    const kk::TrainerOptions options{
        .microbatches = c.microbatches, .clip = c.clip, .seed = 3, .post_validation = c.post_validation};
    trainer.emplace(mesh, model, optimizer, options);
  }

  void step(std::uint32_t number) { reports.push_back(trainer->step(batches(number))); }
  std::vector<double> values() {
    std::vector<double> all;
    model.for_each_parameter([&](const auto& parameter) {
      const auto held = on_host(parameter.value);
      for (std::size_t i = 0; i < held.extent(0); ++i) all.push_back(held(i));
    });
    return all;
  }

  const kk::Mesh<Plan>& mesh;
  Case c;
  Model model;
  Batches batches;
  std::optional<Trainer> trainer;
  std::vector<kk::StepReport> reports;
};

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

bool same(const kk::StepReport& a, const kk::StepReport& b) {
  return a.step == b.step && a.loss == b.loss && a.gradient_norm == b.gradient_norm && a.weight == b.weight &&
         a.learning_rate == b.learning_rate;
}

/// Whether training with post-validation gives the bits of training without it.
template <class Optimizer = kk::optim::AdamW>
bool same_as_without(const kk::Mesh<Plan>& mesh, Case c) {
  Fixture<Optimizer> early(mesh, c);
  c.post_validation = false;
  Fixture<Optimizer> plain(mesh, c);
  for (std::uint32_t step = 0; step < static_cast<std::uint32_t>(c.steps); ++step) {
    early.step(step);
    plain.step(step);
  }
  if (mesh.extent<kk::axis::Pipeline>() > 1) {
    CHECK(early.reports.front().step == 0);
    early.reports.erase(early.reports.begin());
    early.reports.push_back(early.trainer->finish());
  }
  bool result = same(early.trainer->finish(), plain.trainer->finish());
  for (std::size_t i = 0; i < plain.reports.size(); ++i) result = result && same(early.reports[i], plain.reports[i]);
  return result && same_bits(early.values(), plain.values());
}

std::vector<std::string> names(const kk::trace::Recorder& recorder) {
  std::vector<std::string> result;
  for (const auto& event : recorder.events()) result.emplace_back(event.name);
  return result;
}

}  // namespace

TEST_CASE("clipped in some steps: the bits are those of steps that wait") {
  const auto mesh = some_mesh();
  for (const std::string_view schedule : {"zb-h2", "zb-v", "interleaved", "gpipe"})
    CHECK_MESSAGE(same_as_without(mesh, some_case(schedule, schedule == "interleaved" ? 3 : 1)), schedule);
  Case c = some_case("zb-h1");
  c.clip = 0;
  CHECK(same_as_without(mesh, c));
  c.clip = some_norm;
  c.microbatches = 1;
  c.model.tied = false;
  CHECK(same_as_without<kk::optim::Sgd>(mesh, c));
}

TEST_CASE("the next step begins before the norm is known, and again if it was above the limit") {
  const auto mesh = some_mesh();
  Case c = some_case("zb-h2");
  c.steps = 3;
  for (const bool clips : {false, true}) {
    c.clip = clips ? some_norm : 1e9;
    Fixture<> f(mesh, c);
    kk::trace::Recorder recorder;
    f.step(0);
    f.trainer->record(&recorder);
    f.step(1);
    f.trainer->record(nullptr);
    const std::vector<std::string> events = names(recorder);
    const auto find = [&](const char* name) { return std::find(events.begin(), events.end(), name) - events.begin(); };
    const auto end = static_cast<std::ptrdiff_t>(events.size());
    const bool is_early = mesh.extent<kk::axis::Pipeline>() > 1;
    CHECK(find("forward") < find("loss and norm"));
    CHECK((find("dropped") < end) == (is_early && clips));
    CHECK((find("loss and norm") < find("optimizer")));
    if (is_early) CHECK(find("loss and norm") < std::min(find("backward"), find("backward_input")));
    f.trainer->finish();
  }
}

TEST_CASE("a step that is not finite is thrown by the call after it and changes nothing") {
  for (const bool steps_on : {true, false}) {
    const auto mesh = some_mesh();
    Fixture<> f(mesh, some_case("zb-h2"));
    f.step(0);
    f.trainer->finish();
    f.model.for_each_parameter([](const auto& parameter) {
      if (parameter.name == "blocks.0.norm1.gain")
        Kokkos::deep_copy(Kokkos::subview(parameter.value, 0), std::numeric_limits<double>::quiet_NaN());
    });
    const std::vector<double> before = f.values();
    std::string text;
    try {
      f.step(1);
      if (steps_on) f.step(2);
      f.trainer->finish();
    } catch (const kk::Error& error) {
      text = error.what();
    }
    CHECK(text.find("step 2: the loss is") != std::string::npos);
    CHECK(same_bits(f.values(), before));
    CHECK(f.trainer->steps() == 1);
  }
}

TEST_CASE("steps without targets, and steps that the weight makes different") {
  const auto mesh = some_mesh();
  Fixture<> f(mesh, some_case("zb-h2"));
  f.step(0);
  f.trainer->finish();
  const std::vector<double> before = f.values();
  const auto batch = f.batches(1);
  const Kokkos::View<std::int32_t*, Space> none("none", batch.targets.extent(0));
  Kokkos::deep_copy(none, -1);
  f.trainer->step({batch.tokens, none, batch.first_sample});
  kk::StepReport report = f.trainer->finish();
  CHECK(report.step == 2);
  CHECK(report.weight == 0);
  CHECK(report.loss == 0);
  CHECK(same_bits(f.values(), before));
  f.step(2);
  report = f.trainer->finish();
  CHECK(report.step == 3);
  CHECK(report.weight > 0);
  CHECK_FALSE(same_bits(f.values(), before));
}

TEST_CASE("the end of the trainer, validation and contexts make the parameters final") {
  const auto mesh = some_mesh();
  Case c = some_case("zb-v");
  c.clip = 1e-3;  // no early step stands
  c.steps = 1;
  c.post_validation = false;
  Fixture<> plain(mesh, c);
  plain.step(0);
  c.post_validation = true;
  for (const int which : {0, 1, 2}) {
    Fixture<> f(mesh, c);
    f.step(0);
    if (mesh.extent<kk::axis::Pipeline>() > 1) CHECK_FALSE(same_bits(f.values(), plain.values()));
    if (which == 0) f.trainer.reset();
    if (which == 1) CHECK(f.trainer->evaluate(f.batches(1)) == plain.trainer->evaluate(plain.batches(1)));
    if (which == 2) CHECK(f.trainer->context(kk::Mode::evaluation).step == 1);
    CHECK(same_bits(f.values(), plain.values()));
  }
}

TEST_CASE("the copy is counted") {
  const auto mesh = some_mesh();
  Case c = some_case("zb-h2");
  Fixture<> with(mesh, c);
  c.post_validation = false;
  Fixture<> without(mesh, c);
  CHECK(without.trainer->bytes() == 4 * sizeof(double) * without.trainer->store().values().extent(0));
  CHECK(with.trainer->bytes() == (mesh.extent<kk::axis::Pipeline>() > 1 ? 2 : 1) * without.trainer->bytes());
}

TEST_CASE("what a stage throws while a step is not validated is what all ranks report") {
  const auto mesh = some_mesh();
  Fixture<> f(mesh, some_case("zb-h2"));
  std::string text;
  try {
    f.step(0);  // a rank may be in its second step before the others have ended their first
    const auto batch = f.batches(1);
    const Kokkos::View<std::int32_t*, Space> wrong("wrong", batch.tokens.extent(0));
    Kokkos::deep_copy(wrong, batch.tokens);
    Kokkos::deep_copy(Kokkos::subview(wrong, 0), 64);
    f.trainer->step({wrong, batch.targets, batch.first_sample});
    f.trainer->finish();
  } catch (const kk::Error& error) {
    text = error.what();
  }
  CHECK(text.find("a token is 64, outside the vocabulary of 31") != std::string::npos);
}
