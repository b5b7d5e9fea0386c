// SPDX-License-Identifier: Apache-2.0
// A tiny GPT in double against PyTorch, under every plan that fits the ranks: tests/golden/make_gpt.py made the
// numbers.
#include <doctest/doctest.h>

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <limits>
#include <mpi.h>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include <kerkis/core/partition.hpp>
#include <kerkis/mesh/mesh.hpp>
#include <kerkis/nn/gpt.hpp>
#include <kerkis/optim/adamw.hpp>
#include <kerkis/policy/hybrid.hpp>
#include <kerkis/policy/tensor_parallel.hpp>
#include <kerkis/train/trainer.hpp>

namespace kk = kerkis;

namespace {

using Plan = kk::Hybrid<kk::DataParallel<>, kk::TensorParallel<>, kk::Pipeline<>>;
using Numbers = std::vector<double>;
using Tokens = Kokkos::View<std::int32_t*, Kokkos::DefaultExecutionSpace::memory_space>;

const nlohmann::json& golden() {
  static const nlohmann::json file =
      nlohmann::json::parse(std::ifstream(std::filesystem::path(__FILE__).parent_path() / "../golden/gpt.json"));
  return file;
}

double largest(const Numbers& values) {
  double result = 0;
  for (const double value : values) result = std::max(result, std::abs(value));
  return result;
}

/// The sequences of `share` from a whole batch.
Tokens rows_of(const nlohmann::json& batch, kk::Range share, std::int64_t context) {
  Tokens result("rows", static_cast<std::size_t>(share.size() * context));
  const auto host = Kokkos::create_mirror_view(result);
  for (std::size_t i = 0; i < host.extent(0); ++i)
    host(i) = batch.at(static_cast<std::size_t>(share.begin * context) + i).get<std::int32_t>();
  Kokkos::deep_copy(result, host);
  return result;
}

/// Sets the parameters held here to the file's.
void set_parameters(const kk::ParameterStore<double>& store, const nlohmann::json& expected) {
  for (const auto* parameter : store.parameters()) {
    CAPTURE(parameter->name);
    CHECK(expected.contains(parameter->name));
    if (!expected.contains(parameter->name)) continue;
    const nlohmann::json& entry = expected.at(parameter->name);
    CHECK(entry.at("shape").get<std::vector<std::int64_t>>() == parameter->shape);
    const Numbers values = entry.at("values").get<Numbers>();
    if (static_cast<std::int64_t>(values.size()) != parameter->global_size()) continue;
    const auto host = Kokkos::create_mirror_view(parameter->value);
    for (std::int64_t i = 0; i < parameter->size(); ++i)
      host(static_cast<std::size_t>(i)) = values[static_cast<std::size_t>(parameter->global_index(i))];
    Kokkos::deep_copy(parameter->value, host);
  }
}

/// Compares the gradients held here (sums over `weight` targets) with the file's means: to 1e-9 of each tensor's
/// largest. The softmax does not depend on a key's bias, so that the true gradient of that third of qkv.bias is zero:
/// to 1e-9 of the norm of all gradients.
void check_gradients(const kk::ParameterStore<double>& store, double weight, const nlohmann::json& expected,
                     double norm) {
  for (const auto* parameter : store.parameters()) {
    CAPTURE(parameter->name);
    const Numbers gradients = expected.at(parameter->name).get<Numbers>();
    const bool has_keys = parameter->name.ends_with("qkv.bias");
    const std::size_t third = gradients.size() / 3;
    const double scale = largest(gradients);
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace{}, parameter->gradient);
    double worst = 0, worst_key = 0;
    for (std::int64_t i = 0; i < parameter->size(); ++i) {
      const auto global = static_cast<std::size_t>(parameter->global_index(i));
      const double difference = std::abs(host(static_cast<std::size_t>(i)) / weight - gradients[global]);
      double& so_far = has_keys && global / third == 1 ? worst_key : worst;
      so_far = std::isnan(difference) ? std::numeric_limits<double>::infinity() : std::max(so_far, difference);
    }
    CHECK(worst <= 1e-9 * scale);
    CHECK(worst_key <= 1e-9 * norm);
  }
}

void compare(const nlohmann::json& expected, int tensor, int pipeline, int microbatches) {
  const kk::Mesh<Plan> mesh(MPI_COMM_WORLD, kk::tensor(static_cast<std::size_t>(tensor)),
                            kk::pipeline(static_cast<std::size_t>(pipeline)));
  const nlohmann::json& size = expected.at("config");
  const auto extent = [&](const char* name) { return size.at(name).get<std::int64_t>(); };
  kk::nn::Gpt<double, Plan> model(mesh, {.layers = extent("layers"),
                                         .heads = extent("heads"),
                                         .width = extent("width"),
                                         .context = extent("context"),
                                         .vocabulary = extent("vocabulary"),
                                         .tied = size.at("tied").get<bool>()});
  const nlohmann::json& adamw = golden().at("adamw");
  kk::TrainerOptions options;
  options.microbatches = microbatches;
  kk::Trainer trainer(mesh, model,
                      kk::optim::AdamW{.learning_rate = adamw.at("learning_rate").get<double>(),
                                       .beta1 = adamw.at("beta1").get<double>(),
                                       .beta2 = adamw.at("beta2").get<double>(),
                                       .epsilon = adamw.at("epsilon").get<double>(),
                                       .weight_decay = adamw.at("weight_decay").get<double>()},
                      options);
  set_parameters(trainer.store(), expected.at("parameters"));
  if (mesh.world().size() == 1) CHECK(trainer.store().parameters().size() == expected.at("parameters").size());

  const kk::Range share = kk::partition(golden().at("batch").get<std::int64_t>(), mesh.extent<kk::axis::Data>(),
                                        mesh.coordinate<kk::axis::Data>());
  const Numbers losses = expected.at("losses").get<Numbers>(), norms = expected.at("gradient_norms").get<Numbers>();
  for (std::size_t step = 0; step < losses.size(); ++step) {
    CAPTURE(step);
    const Tokens tokens = rows_of(expected.at("tokens").at(step), share, extent("context"));
    const Tokens targets = rows_of(expected.at("targets").at(step), share, extent("context"));
    const auto gradients = trainer.compute_gradients({tokens, targets, share.begin});
    CHECK(std::abs(gradients.loss() - losses[step]) <= 1e-9 * losses[step]);
    CHECK(std::abs(gradients.norm() - norms[step]) <= 1e-9 * norms[step]);
    if (step == 0) check_gradients(trainer.store(), gradients.weight(), expected.at("gradients"), norms[step]);
    trainer.apply_gradients(gradients);
  }
}

}  // namespace

TEST_CASE("a tiny GPT has PyTorch's losses, gradients and norms") {
  int world = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &world);
  for (const nlohmann::json& expected : golden().at("cases"))
    for (int tensor = 1; tensor <= world; ++tensor)
      for (int pipeline = 1; tensor * pipeline <= world; ++pipeline) {
        if (world % (tensor * pipeline) != 0) continue;
        for (const int microbatches : {1, 3}) {
          INFO(expected.at("name").get<std::string>(), ": data ", world / (tensor * pipeline), ", tensor ", tensor,
               ", pipeline ", pipeline, ", microbatches ", microbatches);
          compare(expected, tensor, pipeline, microbatches);
        }
      }
}
