// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/mpi.hpp>
#include <kerkis/core/layer_costs.hpp>
#include <kerkis/mesh/mesh.hpp>
#include <kerkis/module/parameter_store.hpp>
#include <kerkis/nn/gpt_stage.hpp>

namespace kerkis::nn {

namespace detail {
/// What the tensor axis sums in. After a failure MPI may still write to it: it is leaked.
template <class T, class Space>
struct Measured {
  ~Measured() {
    if (!world.poisoned()) return;
    comm::leak(std::move(workspace));
    comm::leak(std::move(output));
  }
  Communicator world;
  Workspace<Space> workspace;
  Matrix<T, Space> output;
};
}  // namespace detail

/// Seconds that a microbatch of `rows` rows (whole sequences, at least one) takes, forward and backward, in a block, in
/// the embedding and in the head: timed on all ranks at once with the shapes that they will have, the best of a few.
/// The slowest rank counts, and every rank gets the same numbers. Holds the parameters of one of these at a time.
/// Collective over the mesh; throws InputError if the configuration makes no sense.
template <class T, class Plan, class Place, class Space = Kokkos::DefaultExecutionSpace>
LayerCosts measure_costs(const Mesh<Plan, Place>& mesh, const GptConfig& config, std::int64_t rows,
                         Recomputation recompute = {}, const Space& execution = Space()) {
  config.check();
  require(rows >= config.context && rows % config.context == 0, "measure_costs: ", rows,
          " rows are not whole sequences of ", config.context);
  using Stage = GptStage<T, Space>;
  const Communicator& tensor = mesh.template communicator<axis::Tensor>();
  const Kokkos::View<std::int32_t*, typename Space::memory_space> tokens("kerkis::measure::tokens",
                                                                         static_cast<std::size_t>(rows));
  const TokenBatch<Space> microbatch{tokens, tokens, 0};
  detail::Measured<T, Space> buffers{mesh.world(), {}, {}};
  Workspace<Space>& workspace = buffers.workspace;
  Context<Space> context{execution, workspace, mesh.world(), 1, 0, 0, 0, Mode::training};
  const auto matrix = [&](const char* label) {
    const auto made = make_matrix<T, Space>(label, rows, config.width);
    Kokkos::deep_copy(execution, made, T(0));
    return made;
  };
  buffers.output = matrix("kerkis::measure::output");
  const auto input = matrix("kerkis::measure::input"), output = buffers.output,
             output_gradient = matrix("kerkis::measure::output_gradient"),
             input_gradient = matrix("kerkis::measure::input_gradient");

  const auto seconds = [&](Range layers, bool first, bool last) {
    Stage stage(config, layers, first, last, tensor, {}, recompute);
    const ParameterStore<T, Space> store(stage, tensor.rank());  // of zeros, which are as fast as anything else
    auto saved = stage.make_saved(rows);
    double best = std::numeric_limits<double>::infinity();
    for (int repetition = 0; repetition < 4; ++repetition) {  // the first one warms up
      execution.fence("kerkis::measure");
      const auto start = std::chrono::steady_clock::now();
      stage.forward(context, microbatch, input, output, saved);
      stage.backward(context, microbatch, output_gradient, input_gradient, saved, [](const auto&) {});
      execution.fence("kerkis::measure");
      const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (repetition > 0) best = std::min(best, took);
    }
    return best;
  };
  Kokkos::View<double[3], Kokkos::HostSpace> costs("kerkis::measure::costs");
  mesh.world().guard([&] {
    costs(0) = seconds({0, 1}, false, false);
    costs(1) = seconds({0, 0}, true, false);
    costs(2) = seconds({0, 0}, false, true);
    all_reduce(execution, mesh.world(), costs, {.operation = Reduction::maximum}).wait();
  });
  return {std::vector<double>(static_cast<std::size_t>(config.layers), costs(0)), costs(1), costs(2)};
}

}  // namespace kerkis::nn
