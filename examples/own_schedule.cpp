// SPDX-License-Identifier: Apache-2.0
// A schedule of your own: proven when this file is compiled, compared with 1F1B by the simulator, and used by a plan.
//
//     mpiexec -n 2 own_schedule

#include <cmath>
#include <cstdio>
#include <kerkis/kerkis.hpp>

namespace kk = kerkis;

/// 1F1B of pairs: each rank does two forwards, then two backwards. Messages come in twos, and twice as much is kept.
struct TwoForwardTwoBackward {
  static constexpr std::string_view name = "2f2b";
  static constexpr std::string_view refusal(kk::PipelineShape shape) {
    return shape.microbatches % 2 == 0 ? "" : "microbatches go in pairs";
  }
  static constexpr void order(kk::PipelineShape shape, int rank, kk::ActionList& list) {
    const int warmup = std::min(shape.microbatches, 2 * (shape.ranks - 1 - rank));
    for (int m = 0; m < warmup; ++m) list.forward(m);
    for (int m = warmup; m < shape.microbatches + warmup; m += 2) {
      if (m < shape.microbatches) list.forward(m), list.forward(m + 1);
      list.backward(m - warmup), list.backward(m - warmup + 1);
    }
  }
};
// Complete, in order, and free of deadlock though a send completes only once its receive is posted.
static_assert(verify(kk::schedule::make_table<TwoForwardTwoBackward>({4, 8})).ok());

/// The loss and the gradient norm of one step.
template <class Plan>
kk::StepReport step(const kk::Mesh<Plan>& mesh) {
  kk::nn::Gpt<double, Plan> model(mesh, {.layers = 4, .heads = 2, .width = 16, .context = 8, .vocabulary = 256});
  kk::Trainer trainer(mesh, model, kk::optim::Sgd{}, {.microbatches = 8});
  std::vector<std::uint8_t> text;
  for (int i = 0; i < 200; ++i) text.push_back(static_cast<std::uint8_t>(i * i));
  kk::TokenLoader loader(mesh, text, {.batch = 16, .context = 8});
  return trainer.step(loader.load(0));
}

void example() {
  using Plan = kk::Pipeline<kk::dynamic, TwoForwardTwoBackward, kk::Microbatches<8>>;
  const kk::Mesh<Plan> mesh(MPI_COMM_WORLD);
  const kk::StepReport ours = step(mesh), alone = step(kk::Mesh<kk::Serial>());
  if (std::abs(ours.loss - alone.loss) > 1e-11 || std::abs(ours.gradient_norm - alone.gradient_norm) > 1e-11)
    throw kk::Error(kk::message("loss ", ours.loss, ", gradient norm ", ours.gradient_norm, " are not ", alone.loss,
                                ", ", alone.gradient_norm));
  if (mesh.world().rank() > 0) return;
  const kk::PipelineShape shape{4, 8};
  const auto mine = kk::schedule::make_table<TwoForwardTwoBackward>(shape),
             usual = kk::schedule::make_table<kk::OneForwardOneBackward>(shape);
  std::printf("4 ranks, 8 microbatches: bubble %.1f %% and %d kept, of 1F1B %.1f %% and %d\n",
              100 * simulate(mine, kk::schedule::Times{}).bubble_rate, peak_live(mine, 0).until_weight,
              100 * simulate(usual, kk::schedule::Times{}).bubble_rate, peak_live(usual, 0).until_weight);
  std::printf("%d ranks: loss %.9f, gradient norm %.9f, as on one\n", mesh.world().size(), ours.loss,
              ours.gradient_norm);
}

int main(int argc, char** argv) { return kk::run(argc, argv, example); }
