// SPDX-License-Identifier: Apache-2.0
// A hybrid plan on a loop of your own: a network whose matrices lie across the tensor axis and whose samples lie across
// the data axis, with your forward, your loss and your step. Serial is the same template with another plan.
//
//     mpiexec -n 4 own_loop

#include <cmath>
#include <cstdio>
#include <kerkis/kerkis.hpp>
#include <kerkis/nn/mlp.hpp>

namespace kk = kerkis;
using Space = Kokkos::DefaultHostExecutionSpace;
using Matrix = kk::Matrix<double, Space>;
using Plan = kk::Hybrid<kk::DataParallel<>, kk::TensorParallel<>>;

constexpr std::int64_t width = 6, samples = 22;

/// Fits a two-layer network to y = -x for `steps` steps, and returns the mean squared error before the last one.
template <class Plan>
double fit(const kk::Mesh<Plan>& mesh, int steps) {
  const kk::Communicator& data = mesh.template communicator<kk::axis::Data>();
  kk::nn::Mlp<double, Space> mlp("mlp", {.width = width, .hidden = 17, .output_deviation = 0.3},
                                 mesh.template communicator<kk::axis::Tensor>());
  const kk::ParameterStore<double, Space> store(mlp, mesh.template coordinate<kk::axis::Tensor>());
  store.initialise(1);
  const auto end = static_cast<std::int64_t>(store.gradients().extent(0));
  kk::GradientReducer<double, Space> reducer(data, store, {{0, end}}, 1 << 20);
  const kk::optim::AdamW adam{.learning_rate = 1e-2};
  kk::optim::AdamW::State<double, Space> state(store);

  const kk::Range mine = kk::partition(samples, data.size(), data.rank());  // not all ranks have as many
  const Matrix x("x", static_cast<std::size_t>(mine.size()), width), y("y", x.extent(0), width),
      dy("dy", x.extent(0), width), dx("dx", x.extent(0), width);
  for (std::size_t i = 0; i < x.size(); ++i)
    x.data()[i] = std::sin(static_cast<double>(i) + static_cast<double>(mine.begin * width));
  auto saved = mlp.make_saved(mine.size());
  kk::Workspace<Space> workspace;
  const Kokkos::View<double, Kokkos::HostSpace> loss("loss");
  for (int step = 0; step < steps; ++step) {
    kk::Context<Space> context{Space(), workspace, mesh.world()};
    mlp.forward(context, x, y, saved);
    loss() = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      dy.data()[i] = 2 * (y.data()[i] + x.data()[i]);
      loss() += dy.data()[i] * dy.data()[i] / 4;
    }
    mlp.backward_input(context, dy, dx, saved);
    mlp.backward_weight(context, saved);
    const auto finished = reducer.finish(Space());  // sums over the data axis
    kk::all_reduce(Space(), data, loss).wait();     // so is the loss
    const double scale = 1.0 / (samples * width);   // one division, of what is whole
    state.step(Space(), adam, store, finished, scale, adam.learning_rate);
    loss() *= scale;
  }
  return loss();
}

void example() {
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const kk::Mesh<Plan> mesh(MPI_COMM_WORLD, kk::tensor(ranks % 2 == 0 ? 2 : 1));  // data: what remains
  const double ours = fit(mesh, 50), alone = fit(kk::Mesh<kk::Serial>(), 50);
  if (std::abs(ours - alone) > 1e-10) throw kk::Error(kk::message("the error is ", ours, ", alone it is ", alone));
  if (mesh.world().rank() == 0) std::printf("%s: the error is %.9f, as alone\n", mesh.description().c_str(), ours);
}

int main(int argc, char** argv) { return kk::run(argc, argv, example); }
