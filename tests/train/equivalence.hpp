// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <kerkis/kerkis.hpp>
#include <map>
#include <string>
#include <string_view>
#include <vector>

/// What the equivalence tests train: a small GPT on random tokens, of which a tenth are not scored, so that weights are
/// uneven.
namespace equivalence {

namespace kk = kerkis;
using Space = Kokkos::DefaultExecutionSpace;

/// A copy in host memory, or what is there already.
template <class View>
auto on_host(const View& view) {
  return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), view);
}

struct Case {
  const char* name;
  kk::nn::GptConfig model{
      .layers = 4, .heads = 4, .width = 32, .context = 8, .vocabulary = 64, .dropout = 0, .tied = true};
  std::int64_t batch = 8;
  int microbatches = 4;
  double clip = 0.5;
  bool sgd = false;
  int steps = 20;
  kk::PipelineOptions pipeline = {};
  bool post_validation = false;
};

/// A pipeline under the schedule of that name.
inline kk::PipelineOptions scheduled(std::string_view name, int chunks = 1) {
  return {.schedule = kk::schedule::choose(name), .chunks = chunks};
}

/// What every plan must reproduce: losses (the last one of a validation) and gradient norms before clipping, and the
/// parameters at the end by name.
struct Trace {
  std::vector<double> losses, norms;
  std::map<std::string, std::vector<double>> parameters;
  double parameter_norm = 0;

  /// With post-validation reports come late, and one may come twice.
  void add(const kk::StepReport& report) {
    if (report.step != static_cast<std::int64_t>(losses.size()) + 1) return;
    losses.push_back(report.loss);
    norms.push_back(report.gradient_norm);
  }
};

/// Some extents are left open, to be given at run time.
template <class Schedule>
using DynamicPlan = kk::Hybrid<kk::DataParallel<kk::dynamic, kk::Buckets<4096>>, kk::TensorParallel<>,
                               kk::Pipeline<kk::dynamic, Schedule>>;

/// The share of a replica of the batch of one step.
class Batches {
 public:
  Batches(const Case& c, kk::Range share)
      : case_(c), share_(share), tokens_("tokens", count()), targets_("targets", count()),
        host_tokens_(Kokkos::create_mirror_view(tokens_)), host_targets_(Kokkos::create_mirror_view(targets_)) {}

  kk::TokenBatch<Space> operator()(std::uint32_t step) const {
    const kk::Random random(7, kk::stream_of("batch"), step);
    const auto vocabulary = static_cast<std::uint64_t>(case_.model.vocabulary);
    for (std::size_t row = 0; row < count(); ++row) {
      const std::uint64_t global = static_cast<std::uint64_t>(share_.begin * case_.model.context) + row;
      host_tokens_(row) = static_cast<std::int32_t>(random.below(vocabulary, 3 * global));
      host_targets_(row) = random.uniform(4 * (3 * global + 1)) < 0.1
                               ? -1
                               : static_cast<std::int32_t>(random.below(vocabulary, 3 * global + 2));
    }
    Kokkos::deep_copy(tokens_, host_tokens_);
    Kokkos::deep_copy(targets_, host_targets_);
    return {tokens_, targets_, share_.begin};
  }

 private:
  std::size_t count() const { return static_cast<std::size_t>(share_.size() * case_.model.context); }
  const Case& case_;
  kk::Range share_;
  Kokkos::View<std::int32_t*, Space> tokens_, targets_;
  decltype(Kokkos::create_mirror_view(tokens_)) host_tokens_, host_targets_;
};

/// Trains under the plan of `mesh`. The parameters of the trace are those held here, with their global indices as they
/// are.
template <class T, class Plan, class Optimizer, class Look>
Trace train(const kk::Mesh<Plan>& mesh, const Case& c, Optimizer optimizer, Look&& look) {
  kk::nn::Gpt<T, Plan> model(mesh, c.model, c.pipeline);
  int microbatches = c.microbatches;
  if constexpr (!std::is_void_v<typename kk::plan_traits<Plan>::template on<kk::axis::Pipeline>>)
    if (kk::plan_traits<Plan>::template on<kk::axis::Pipeline>::microbatches != kk::dynamic) microbatches = 0;
  kk::Trainer trainer(mesh, model, optimizer,
                      {.microbatches = microbatches,
                       .clip = c.clip,
                       .seed = 3,
                       .schedule = kk::optim::WarmupCosine{.warmup = 5, .steps = 20},
                       .post_validation = c.post_validation});
  const Batches batches(
      c, kk::partition(c.batch, mesh.template extent<kk::axis::Data>(), mesh.template coordinate<kk::axis::Data>()));
  look(mesh, model);
  Trace trace;
  const auto steps = static_cast<std::uint32_t>(c.steps);
  for (std::uint32_t step = 0; step < steps; ++step) {
    trace.add(trainer.step(batches(step)));
  }
  trace.add(trainer.finish());
  trace.losses.push_back(trainer.evaluate(batches(steps)));
  for (const auto* parameter : trainer.store().parameters()) {
    std::vector<double>& values = trace.parameters[parameter->name];
    values.assign(static_cast<std::size_t>(parameter->global_size()), std::nan(""));
    const auto held = on_host(parameter->value);
    for (std::int64_t i = 0; i < parameter->size(); ++i)
      values[static_cast<std::size_t>(parameter->global_index(i))] =
          static_cast<double>(held(static_cast<std::size_t>(i)));
  }
  return trace;
}

template <class T, class Plan, class Look>
Trace train(const kk::Mesh<Plan>& mesh, const Case& c, Look&& look) {
  if constexpr (std::is_same_v<T, double>)
    if (c.sgd) return train<T>(mesh, c, kk::optim::Sgd{.learning_rate = 3e-3, .momentum = 0.9}, look);
  return train<T>(mesh, c, kk::optim::AdamW{.learning_rate = 3e-4}, look);
}
template <class T, class Plan>
Trace train(const kk::Mesh<Plan>& mesh, const Case& c) {
  return train<T>(mesh, c, [](const auto&, const auto&) {});
}

/// The trace of one rank, computed by rank 0 of `world` and sent to all.
template <class T, class Schedule = kk::GPipe>
Trace serial(const kk::Communicator& world, const Case& c) {
  using Plan = DynamicPlan<Schedule>;
  Case whole = c;
  whole.microbatches = 1;
  whole.pipeline = {};
  if (std::is_same_v<Schedule, kk::DynamicSchedule>) whole.pipeline = scheduled("gpipe");
  const kk::Mesh<Plan> mesh(MPI_COMM_SELF, kk::tensor(1), kk::pipeline(1));
  Trace trace;
  if (world.rank() == 0) trace = train<T>(mesh, whole);
  const auto share = [&](std::vector<double>& values) {
    Kokkos::View<std::int64_t, Kokkos::HostSpace> size("size");
    size() = static_cast<std::int64_t>(values.size());
    kk::broadcast(Space(), world, size).wait();
    values.resize(static_cast<std::size_t>(size()));
    kk::broadcast(Space(), world, Kokkos::View<double*, Kokkos::HostSpace>(values.data(), values.size())).wait();
  };
  share(trace.losses);
  share(trace.norms);
  kk::nn::Gpt<T, Plan> names(mesh, c.model, whole.pipeline);
  names.for_each_parameter([&](const auto& parameter) { share(trace.parameters[parameter.name]); });
  for (const auto& [name, values] : trace.parameters)
    for (const double value : values) trace.parameter_norm += value * value;
  trace.parameter_norm = std::sqrt(trace.parameter_norm);
  return trace;
}

inline double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = a.size() == b.size() ? 0 : 1e300;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i)
    largest = std::max(largest, std::isfinite(a[i]) ? std::abs(a[i] - b[i]) / std::abs(b[i]) : 1e300);
  return largest;
}

/// The largest difference of the parameters held here, each relative to its tensor's largest value; key biases, whose
/// gradient is zero but for rounding, relative to the norm of all.
inline double largest_parameter_difference(const Trace& ours, const Trace& serial) {
  double largest = 0;
  for (const auto& [name, values] : ours.parameters) {
    const std::vector<double>& expected = serial.parameters.at(name);
    double scale = 0;
    for (const double value : expected) scale = std::max(scale, std::abs(value));
    const bool has_keys = name.ends_with("qkv.bias");
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (std::isnan(values[i]) && !std::isnan(expected[i])) continue;  // another rank's
      const bool is_key = has_keys && i / (values.size() / 3) == 1;
      const double difference = std::abs(values[i] - expected[i]) / (is_key ? serial.parameter_norm : scale);
      largest = std::max(largest, std::isfinite(difference) ? difference : 1e300);
    }
  }
  return largest;
}

/// Whether a trace is the serial one to the precision that is promised.
template <class T>
bool equal(const Trace& ours, const Trace& serial, double& losses, double& norms, double& parameters) {
  constexpr double tolerance = std::is_same_v<T, double> ? 1e-11 : 1e-5;
  losses = largest_difference(ours.losses, serial.losses);
  norms = largest_difference(ours.norms, serial.norms);
  parameters = std::is_same_v<T, double> ? largest_parameter_difference(ours, serial) : 0;
  return losses <= tolerance && norms <= tolerance && parameters <= 1e-9;
}

}  // namespace equivalence
