// SPDX-License-Identifier: Apache-2.0
// Whole training steps of a GPT, data parallel, in float: forward, backward, clipping, AdamW. bench/train_step.sh runs
// it beside PyTorch.
//
//     mpiexec -n 2 train_step --width 128 --layers 4 --heads 4 --context 64 --batch 16
//
// With --serve it says "ready PARAMETERS LOSS OPERATIONS" after its first step (the operations are a step's), and then
// answers each line of its input, until that ends:
//     BLOCKS STEPS    "seconds X", per step of the best of BLOCKS blocks of STEPS steps
//     product         "speed X", GFLOP/s of all ranks in products of 1024 × 1024 matrices
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <iostream>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <kerkis/comm/environment.hpp>
#include <kerkis/core/philox.hpp>
#include <kerkis/data/token_loader.hpp>
#include <kerkis/device/gemm.hpp>
#include <kerkis/mesh/mesh.hpp>
#include <kerkis/nn/gpt.hpp>
#include <kerkis/optim/adamw.hpp>
#include <kerkis/policy/hybrid.hpp>
#include <kerkis/train/trainer.hpp>

namespace kk = kerkis;

namespace {

using Plan = kk::Hybrid<kk::DataParallel<>>;
using Space = Kokkos::DefaultExecutionSpace;

struct Size {
  std::int64_t layers = 2, heads = 4, width = 32, context = 16, batch = 4;
};

/// Seconds of `body`, the longest over the ranks.
double seconds(const std::function<void()>& body) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = std::chrono::steady_clock::now();
  body();
  Space().fence("bench");
  double mine = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), longest = 0;
  MPI_Allreduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return longest;
}

/// GFLOP/s of all ranks together, the best of several.
double product_speed(int ranks) {
  constexpr std::size_t n = 1024;
  const kk::Matrix<float> a("a", n, n), b("b", n, n), c("c", n, n);
  Kokkos::deep_copy(a, 1.0f);
  Kokkos::deep_copy(b, 1.0f);
  double best = std::numeric_limits<double>::infinity();
  for (int i = 0; i < 5; ++i)
    best =
        std::min(best, seconds([&] {
                   kk::device::gemm(Space(), kk::device::Transpose::no, kk::device::Transpose::no, 1.0f, a, b, 0.0f, c);
                 }));
  return ranks * 2e-9 * n * n * n / best;
}

/// What a token costs at least, forward and backward: two operations for each weight that multiplies it and, for its
/// scores and its mixture, for each of the (T + 1) / 2 positions that it sees on average; the backward pass costs twice
/// as much as the forward pass.
double operations_per_token(const Size& size) {
  const auto [layers, heads, width, context, batch] = size;
  const double weights = static_cast<double>(12 * layers * width * width + 256 * width);
  return 6 * weights + 6 * static_cast<double>(layers * width * (context + 1));
}

std::vector<std::uint8_t> random_text(std::size_t length) {
  const kk::Random random(1, kk::stream_of("text"));
  std::vector<std::uint8_t> text(length);
  for (std::size_t i = 0; i < length; ++i) text[i] = static_cast<std::uint8_t>(random.below(256, i));
  return text;
}

/// The next order for all ranks: blocks and steps, {-1, 0} for the product, {0, 0} at the end. The other ranks sleep:
/// the rival runs meanwhile.
std::array<int, 2> next_order(int rank) {
  std::array<int, 2> order{};
  if (rank == 0) {
    std::string line;
    if (std::getline(std::cin, line)) {
      if (line == "product")
        order[0] = -1;
      else if (!(std::istringstream(line) >> order[0] >> order[1]) || order[0] < 1 || order[1] < 1)
        std::cerr << "not an order: " << line << std::endl, order = {};
    }
  }
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(order.data(), 2, MPI_INT, 0, MPI_COMM_WORLD, &request);
  for (int done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return order;
}

void benchmark(const Size& size, bool serve) {
  const kk::Mesh<Plan> mesh(MPI_COMM_WORLD);
  const int ranks = mesh.world().size(), rank = mesh.world().rank();
  kk::nn::Gpt<float, Plan> model(
      mesh,
      {.layers = size.layers, .heads = size.heads, .width = size.width, .context = size.context, .vocabulary = 256});
  kk::TrainerOptions options;
  options.clip = 1;
  kk::Trainer trainer(mesh, model, kk::optim::AdamW{.learning_rate = 3e-4}, options);
  kk::TokenLoader loader(mesh, random_text(1 << 16), {.batch = size.batch * ranks, .context = size.context});

  std::int64_t step = 0;
  const auto steps = [&](int count) {
    for (int i = 0; i < count; ++i, ++step) trainer.step(loader.load(step));
  };
  const auto best_block = [&](int blocks, int count) {
    double best = std::numeric_limits<double>::infinity();
    for (int block = 0; block < blocks; ++block) best = std::min(best, seconds([&] { steps(count); }) / count);
    return best;
  };

  const double loss = trainer.step(loader.load(step++)).loss;
  std::int64_t parameters = 0;
  for (const auto* parameter : trainer.store().parameters()) parameters += parameter->global_size();
  const double tokens = static_cast<double>(size.batch * size.context * ranks),
               operations = tokens * operations_per_token(size);

  if (!serve) {
    const double product = product_speed(ranks),
                 best = best_block(5, static_cast<int>(std::clamp(1e10 / operations, 1.0, 200.0)));
    if (rank == 0)
      std::cout << parameters << " parameters, " << ranks << " ranks: " << 1e3 * best << " ms a step, " << tokens / best
                << " tokens/s, " << operations / best * 1e-9 << " GFLOP/s, " << 100 * operations / best * 1e-9 / product
                << " % of the " << product << " GFLOP/s of products" << std::endl;
    return;
  }
  if (rank == 0) std::cout << "ready " << parameters << " " << loss << " " << operations << std::endl;
  while (true) {
    const auto [blocks, count] = next_order(rank);
    if (blocks == 0) return;
    const double answer = blocks < 0 ? product_speed(ranks) : best_block(blocks, count);
    if (rank == 0) std::cout << (blocks < 0 ? "speed " : "seconds ") << answer << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  Size size;
  bool serve = false;
  CLI::App app("whole training steps of a GPT");
  app.add_option("--layers", size.layers)->capture_default_str();
  app.add_option("--heads", size.heads)->capture_default_str();
  app.add_option("--width", size.width)->capture_default_str();
  app.add_option("--context", size.context)->capture_default_str();
  app.add_option("--batch", size.batch, "sequences of each rank")->capture_default_str();
  app.add_flag("--serve", serve, "take orders from the input");
  CLI11_PARSE(app, argc, argv);
  return kk::run(argc, argv, {.threads = 1}, [&] { benchmark(size, serve); });
}
