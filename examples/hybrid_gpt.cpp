// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <kerkis/kerkis.hpp>
namespace kk = kerkis;

using Plan = kk::Hybrid<kk::DataParallel<>,  // whatever ranks remain
                        kk::TensorParallel<2>,
                        kk::Pipeline<2, kk::OneForwardOneBackward, kk::Microbatches<8>>>;

int main(int argc, char** argv) {
  return kk::run(argc, argv, [&] {  // starts MPI and Kokkos, prints an error once, gives the exit status
    kk::require(argc == 2, "usage: hybrid_gpt TEXT");
    kk::Mesh<Plan> mesh(MPI_COMM_WORLD);  // refuses a world that the plan does not fit
    const auto text = kk::TextCorpus::from_file(mesh.world(), argv[1]);
    kk::nn::Gpt<float, Plan> model(mesh, {.layers = 6, .heads = 8, .width = 128, .context = 64, .vocabulary = 256});
    kk::Trainer trainer(mesh, model, kk::optim::AdamW{.learning_rate = 1e-3}, {.clip = 1});
    kk::TokenLoader loader(mesh, text.training, {.batch = 16, .context = 64, .steps = 20});
    for (auto batch : loader) {
      const auto report = trainer.step(batch);
      if (mesh.world().rank() == 0) std::printf("loss %.4f, gradient norm %.3f\n", report.loss, report.gradient_norm);
    }
  });
}
