// SPDX-License-Identifier: Apache-2.0
// A pipeline of your own: layers spread over the ranks, trained under 1F1B. The executor sees to messages and memory,
// and takes any other schedule as well.
//
//     mpiexec -n 4 own_stage

#include <cmath>
#include <cstdio>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/environment.hpp>
#include <kerkis/module/parameter_store.hpp>
#include <kerkis/nn/linear.hpp>
#include <kerkis/pipeline/executor.hpp>
#include <kerkis/pipeline/module_stage.hpp>
#include <kerkis/schedule/one_forward_one_backward.hpp>
#include <vector>

namespace kk = kerkis;
using Space = Kokkos::DefaultHostExecutionSpace;
using Matrix = kk::Matrix<double, Space>;
constexpr int layers = 6, width = 8, rows_of_each = 4, microbatches = 6;

/// A microbatch: what the first stage takes, and which samples they are.
struct Batch {
  std::int64_t first_sample = 0;
  Matrix input;
  std::int64_t rows() const { return rows_of_each; }
};

/// The loss, for the last stage: the sum of squares of its output. Also writes the gradient, unless it evaluates.
struct Squares {
  kk::LossSum operator()(kk::Context<Space>&, const Batch&, const Matrix& output, const Matrix& gradient) const {
    kk::LossSum loss;
    for (std::size_t i = 0; i < output.size(); ++i) {
      loss += {output.data()[i] * output.data()[i], 1};
      if (gradient.data() != nullptr) gradient.data()[i] = 2 * output.data()[i];
    }
    return loss;
  }
};

/// The squared norm of the gradients of this rank's layers.
double train(const kk::Communicator& pipeline) {
  const int rank = pipeline.rank(), ranks = pipeline.size();
  using Stage = kk::ModuleStage<Batch, Squares, Space>;
  Stage stage({.first = rank == 0, .last = rank + 1 == ranks, .columns = width});
  const kk::Range mine = kk::partition(layers, ranks, rank);
  for (auto layer = mine.begin; layer < mine.end; ++layer)  // any class with the members of a Module, as in own_layer
    stage.add(kk::nn::Linear<double, Space>(kk::message("layer.", layer), width, width,
                                            {.weight = kk::Initial::normal(0.4)}));
  const kk::ParameterStore<double, Space> store(stage, 0);
  store.initialise(1);  // by name: the same wherever a layer lies
  std::vector<Batch> batches;
  for (int m = 0; m < microbatches; ++m) {
    const Batch& batch = batches.emplace_back(Batch{rows_of_each * m, Matrix("input", rows_of_each, width)});
    for (int i = 0; i < rows_of_each * width; ++i) batch.input.data()[i] = std::sin(rows_of_each * width * m + i);
  }
  const auto table = kk::schedule::make_table<kk::OneForwardOneBackward>({ranks, microbatches});
  kk::PipelineExecutor<Stage> executor(pipeline, table, {&stage}, rows_of_each);  // refuses a table with a fault
  kk::Workspace<Space> workspace;
  executor.train({Space(), workspace, pipeline}, batches, [](int, const auto&) { /* a GradientReducer's `ready` */ });
  double squares = 0;
  for (std::size_t i = 0; i < store.gradients().size(); ++i) squares += std::pow(store.gradients()(i), 2);
  return squares;
}

void example() {
  const kk::Communicator world(MPI_COMM_WORLD);
  const Kokkos::View<double, Kokkos::HostSpace> ours("squares");
  ours() = train(world);
  kk::all_reduce(Space(), world, ours).wait();
  const double alone = train({});
  if (std::abs(ours() - alone) > 1e-11 * alone) throw kk::Error(kk::message("|gradient|² ", ours(), ", not ", alone));
  if (world.rank() == 0)
    std::printf("%d ranks: the gradient's norm is %.9g, as on one\n", world.size(), std::sqrt(alone));
}

int main(int argc, char** argv) { return kk::run(argc, argv, example); }
