// SPDX-License-Identifier: Apache-2.0
// Trains a byte-level GPT on text under any plan of data, tensor and pipeline parallelism, and lets it write a few
// lines.
//
//     mpiexec -n 8 train_gpt --tensor 2 --pipeline 2 --schedule zb-v --microbatches 8 --text my.txt

#include <cmath>
#include <cstdio>
#include <kerkis/kerkis.hpp>
#include <kerkis/trace/chrome.hpp>
#include <optional>
#include <string>
#include <vector>

#include "train_gpt/machine.hpp"
#include "train_gpt/options.hpp"
#include "train_gpt/progress.hpp"

namespace kk = kerkis;
using Space = Kokkos::DefaultExecutionSpace;

using Plan = kk::Hybrid<kk::DataParallel<>, kk::TensorParallel<>, kk::Pipeline<kk::dynamic, kk::DynamicSchedule>>;

kk::nn::GptConfig config_of(const TrainOptions& o) {
  return {.layers = o.layers,
          .heads = o.heads,
          .width = o.width,
          .context = o.context,
          .vocabulary = 256,
          .dropout = o.dropout,
          .tied = o.tie};
}

/// How the layers lie in the pipeline; with measured costs, what all ranks have measured together.
template <class T>
kk::PipelineOptions pipeline_of(const kk::Mesh<Plan>& mesh, const TrainOptions& o) {
  kk::PipelineOptions options = o.pipeline_options();
  if (o.stage_costs == "even") return options;
  const kk::Range share = kk::partition(o.batch, mesh.extent<kk::axis::Data>(), 0);
  const std::int64_t parts = o.microbatches > 0 ? o.microbatches : mesh.extent<kk::axis::Pipeline>();
  const std::int64_t sequences = std::max<std::int64_t>(1, kk::partition(share.size(), parts, 0).size());
  options.costs = kk::nn::measure_costs<T>(mesh, config_of(o), sequences * o.context, *options.recompute);
  if (mesh.world().rank() == 0)
    std::printf("a microbatch takes %.2f ms in a block, %.2f ms in the embedding, %.2f ms in the head\n",
                1e3 * options.costs.layers.front(), 1e3 * options.costs.before, 1e3 * options.costs.after);
  return options;
}

/// Everything that one run of training needs, on a mesh; used for the run itself and for its repetition on one rank.
template <class T>
struct Session {
  Session(const kk::Mesh<Plan>& grid, const TrainOptions& o, const kk::PipelineOptions& pipeline,
          const kk::TextCorpus& text)
      : mesh(grid), model(mesh, config_of(o), pipeline),
        trainer(mesh, model, kk::optim::AdamW{.learning_rate = o.learning_rate, .weight_decay = o.weight_decay},
                {.microbatches = o.microbatches,
                 .clip = o.clip,
                 .seed = o.seed,
                 .schedule = kk::optim::WarmupCosine{.warmup = o.warmup, .steps = o.steps},
                 .post_validation = o.post_validation}),
        training(mesh, text.training, {.batch = o.batch, .context = o.context, .steps = o.steps, .seed = o.seed}),
        validation(mesh, text.validation, {.batch = 1, .context = o.context}) {}

  double validate() { return trainer.evaluate(validation.spread(64)); }

  const kk::Mesh<Plan>& mesh;
  kk::nn::Gpt<T, Plan> model;
  kk::Trainer<Plan, kk::Placement<>, kk::nn::Gpt<T, Plan>, kk::optim::AdamW> trainer;
  kk::TokenLoader<> training, validation;
};

kk::Mesh<Plan> make_mesh(MPI_Comm ranks, std::size_t data, std::size_t tensor, std::size_t pipeline) {
  if (data == 0) return kk::Mesh<Plan>(ranks, kk::tensor(tensor), kk::pipeline(pipeline));
  return kk::Mesh<Plan>(ranks, kk::data(data), kk::tensor(tensor), kk::pipeline(pipeline));
}

/// Says what is about to run: the grid, what each rank holds, the pipeline's bubble. Needs all ranks.
template <class T>
void print_plan(const Session<T>& session, const TrainOptions& o, double speed) {
  const kk::Communicator& world = session.mesh.world();
  std::int64_t mine = 0;
  for (const auto* parameter : session.trainer.store().parameters()) mine += parameter->size();
  Kokkos::View<std::int64_t[2], Kokkos::HostSpace> here("here");
  Kokkos::View<std::int64_t* [2], Kokkos::LayoutRight, Kokkos::HostSpace> sizes("sizes",
                                                                                static_cast<std::size_t>(world.size()));
  here(0) = mine;
  here(1) = static_cast<std::int64_t>(session.trainer.bytes());
  kk::all_gather(Kokkos::DefaultHostExecutionSpace(), world, here, sizes).wait();
  if (world.rank() != 0) return;

  const int microbatches = session.trainer.microbatches();
  std::printf("%d rank%s: %s; %d thread%s each\n", world.size(), world.size() == 1 ? "" : "s",
              session.mesh.description().c_str(), Space().concurrency(), Space().concurrency() == 1 ? "" : "s");
  for (std::size_t rank = 0; rank < sizes.extent(0); ++rank)
    std::printf("  rank %zu: %lld parameters, %.1f MB with gradients and moments%s\n", rank,
                static_cast<long long>(sizes(rank, 0)), static_cast<double>(sizes(rank, 1)) * 1e-6,
                o.post_validation && o.pipeline > 1 ? " and a copy of all" : "");
  const auto table = session.model.table(microbatches);
  const auto simulated =
      kk::schedule::simulate(table, {.forward = 1, .backward_input = 1, .backward_weight = 1, .communication = 0});
  const double kept = o.post_validation ? 1 : simulated.span / simulated.makespan;  // without it all ranks meet
  std::printf("%s, %d stage%s, %d microbatch%s per replica: predicted bubble %.1f %%\n",
              session.model.schedule_name().c_str(), table.stages(), table.stages() == 1 ? "" : "s", microbatches,
              microbatches == 1 ? "" : "es", 100 * (1 - (1 - simulated.bubble_rate) * kept));
  std::printf("%lld steps of %lld sequences of %lld bytes; matrix products run at %.0f Gflop/s here\n",
              static_cast<long long>(o.steps), static_cast<long long>(o.batch), static_cast<long long>(o.context),
              speed * 1e-9);
  std::fflush(stdout);
}

/// Repeats the first steps on rank 0 alone and prints both losses side by side.
template <class T>
void verify(const kk::Communicator& world, const TrainOptions& o, const kk::TextCorpus& text,
            const std::vector<double>& losses, double step_seconds) {
  if (world.rank() == 0) {
    const auto mesh = make_mesh(MPI_COMM_SELF, 1, 1, 1);
    Session<T> alone(mesh, o, o.pipeline_options(), text);
    double largest = 0, fastest = 1e300;
    std::printf("\nthe first %zu steps again, on one rank:\n  step   %2d ranks             1 rank\n", losses.size(),
                world.size());
    for (std::size_t s = 0; s < losses.size(); ++s) {
      const auto start = Clock::now();
      const double loss = alone.trainer.step(alone.training.load(static_cast<std::int64_t>(s))).loss;
      fastest = std::min(fastest, seconds_since(start));
      largest = std::max(largest, std::abs(loss - losses[s]) / std::abs(loss));
      std::printf("  %4zu   %-19.15g  %.15g\n", s + 1, losses[s], loss);
    }
    std::printf("largest relative difference %.1e; best step %.1f ms on %d ranks, %.1f ms on one\n", largest,
                1e3 * step_seconds, world.size(), 1e3 * fastest);
    std::fflush(stdout);
  }
  kk::barrier(world, {.deadline = std::chrono::hours(24)}).wait();
}

template <class T>
void train(const TrainOptions& o) {
  config_of(o).check();  // before the ranks need each other
  const auto mesh = make_mesh(MPI_COMM_WORLD, o.data, o.tensor, o.pipeline);
  const kk::Communicator& world = mesh.world();
  const auto least = static_cast<std::size_t>(o.context + 1);
  const kk::TextCorpus text = o.text.empty() ? kk::TextCorpus::from_folder(world, "/usr/share/common-licenses")
                                             : kk::TextCorpus::from_file(world, o.text, least);
  std::optional<Log> log;
  kk::on_root(world, [&] {
    log.emplace(o.log);
    const std::string wrong = o.trace.empty() ? std::string() : command_line::check_writable(o.trace);
    kk::require(wrong.empty(), "the trace ", wrong);
  });

  std::optional<Session<T>> session(std::in_place, mesh, o, pipeline_of<T>(mesh, o), text);
  const double speed = product_speed<T>(world);
  print_plan(*session, o, speed);
  Progress progress(world.rank() == 0, o.steps, operations_per_token(session->model.config()), speed);

  kk::trace::Recorder recorder;
  if (!o.trace.empty()) session->trainer.record(&recorder);

  std::vector<double> first_losses;
  double validation = 0, fastest = 1e300, seconds = 0;
  std::int64_t told = 0;
  const auto tell = [&](const kk::StepReport& report, double its_seconds, double validation_loss) {
    if (report.step <= told) return;
    told = report.step;
    if (told <= o.verify) first_losses.push_back(report.loss);
    world.guard([&] {
      if (log) log->write(report, its_seconds, validation_loss);
    });
    progress.step(report, its_seconds);
  };
  for (std::int64_t step = 1; step <= o.steps; ++step) {
    const auto start = Clock::now();
    kk::StepReport report = session->trainer.step(session->training.load(step - 1));
    if (report.step < step) tell(report, seconds, std::nan(""));  // with post-validation: of the step before
    seconds = seconds_since(start);
    fastest = std::min(fastest, seconds);
    const bool validates = step == o.steps || (o.validate_every > 0 && step % o.validate_every == 0);
    if (validates) {
      validation = session->validate();
      progress.validation(validation);
      report = session->trainer.finish();
    }
    if (report.step == step) tell(report, seconds, validates ? validation : std::nan(""));
  }
  if (!o.trace.empty()) {
    session->trainer.record(nullptr);
    kk::trace::write_chrome(o.trace, world, recorder,
                            kk::message("rank ", world.rank(), ": data ", mesh.coordinate<kk::axis::Data>(),
                                        ", tensor ", mesh.coordinate<kk::axis::Tensor>(), ", pipeline ",
                                        mesh.coordinate<kk::axis::Pipeline>()));
  }
  if (world.rank() == 0) std::printf("validation loss %.4f nats per byte\n", validation);

  if (o.sample > 0) {
    kk::nn::Generator generate(mesh, session->model);
    const auto sample = generate(session->trainer.context(kk::Mode::evaluation), {'\n'},
                                 {.tokens = o.sample, .temperature = o.temperature, .seed = o.seed});
    if (world.rank() == 0) {
      std::printf("\n");
      for (const std::int32_t byte : sample) std::putchar(byte == '\n' || (byte >= ' ' && byte < 127) ? byte : '?');
      std::printf("\n");
      std::fflush(stdout);
    }
  }
  session.reset();
  if (o.verify > 0 && world.size() > 1) verify<T>(world, o, text, first_losses, fastest);
}

/// Once, and without Kokkos: nobody needs a GPU to read it.
int print_help(int argc, char** argv, const std::string& help) {
  int rank = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) std::printf("%s", help.c_str());
  return MPI_Finalize();
}

int main(int argc, char** argv) {
  const TrainOptions o = TrainOptions::parse(argc, argv);
  if (!o.help.empty()) return print_help(argc, argv, o.help);
  return kk::run(argc, argv, {.threads = o.threads}, [&] {
    kk::require(o.error.empty(), o.error);
    const bool is_double = o.precision == "double";
    is_double ? train<double>(o) : train<float>(o);
  });
}
