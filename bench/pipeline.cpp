// SPDX-License-Identifier: Apache-2.0
// Steps of a pipeline of equal stages (blocks of a GPT, forward and backward, no optimizer) beside what the simulator
// says for the times that its actions take. bench/pipeline.sh runs it beside PyTorch. All ranks are on one host.
//
// Says "ready", and then answers each line of its input, until that ends:
//     step SCHEDULE M N    "step MEASURED SIMULATED F B W C", in seconds: the fastest of N steps of M microbatches,
//     what
//                          the simulator makes of the times of that step's actions, and these times of a stage and of a
//                          message. SCHEDULE: a name, or csv:FILE with a table of PyTorch's
//     pair M N             "pair MEASURED SIMULATED": by how much zb-h1 is faster than 1f1b, medians of N pairs of
//     steps overhead             "overhead X": seconds of an action that does nothing, outside MPI hand_off BYTES
//     "hand_off OURS RAW": seconds of a round trip, ours and with MPI alone
#include <mpi.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <iterator>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <kerkis/comm/environment.hpp>
#include <kerkis/comm/persistent_hand_off.hpp>
#include <kerkis/core/recorder.hpp>
#include <kerkis/pipeline/executor.hpp>
#include <kerkis/schedule/csv.hpp>
#include <kerkis/schedule/registry.hpp>
#include <kerkis/schedule/simulator.hpp>

#include "pipeline/outside_mpi.hpp"
#include "pipeline/stages.hpp"
#include "median.hpp"

namespace kk = kerkis;
namespace ks = kerkis::schedule;

namespace {

using Recorder = kk::trace::Recorder;

double all(double value, MPI_Op operation) {
  double result = 0;
  MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, operation, MPI_COMM_WORLD);
  return result;
}
double seconds_since(std::int64_t start) { return static_cast<double>(Recorder::now() - start) * 1e-9; }

/// Seconds of a round trip of persistent messages. `wait(false)` for what is sent, `wait(true)` for what is received.
double round_trip(int rank, int trips, const std::function<void(bool receive)>& start,
                  const std::function<void(bool receive)>& wait) {
  MPI_Barrier(MPI_COMM_WORLD);
  const std::int64_t begin = Recorder::now();
  for (int trip = 0; trip < trips; ++trip) {
    start(true);
    if (rank == 0) start(false), wait(false);
    wait(true);
    if (rank == 1) start(false), wait(false);
  }
  return all(seconds_since(begin) / trips, MPI_MAX);
}

/// {ours, MPI's}: the fastest of several turns.
std::array<double, 2> hand_off(const kk::Communicator& world, std::size_t bytes) {
  std::array<double, 2> best{1e9, 1e9};
  if (world.size() < 2) return {0, 0};
  const int rank = world.rank(), peer = 1 - rank;
  kk::require(world.size() == 2, "hand-offs are measured between two ranks");
  const Kokkos::View<char*, Space> out("out", bytes), in("in", bytes);
  auto send = kk::persistent_send(Space(), world, out, {.to = peer});
  auto receive = kk::persistent_receive(Space(), world, in, {.from = peer});

  std::array<MPI_Request, 2> raw{};
  const int size = static_cast<int>(bytes), spins = world.options().wait.spins;
  MPI_Comm own = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  MPI_Send_init(out.data(), size, MPI_CHAR, peer, 0, own, &raw[0]);
  MPI_Recv_init(in.data(), size, MPI_CHAR, peer, 0, own, &raw[1]);

  const auto ours = [&](int trips) {
    kk::Request comes, goes;
    return round_trip(
        rank, trips, [&](bool receiving) { receiving ? comes = receive.start() : goes = send.start(); },
        [&](bool receiving) { (receiving ? comes : goes).wait(); });
  };
  const auto mpi = [&](int trips) {
    return round_trip(
        rank, trips, [&](bool receiving) { MPI_Start(&raw[receiving ? 1 : 0]); },
        [&](bool receiving) {
          int done = 0;
          for (int spin = 0;; ++spin) {
            MPI_Test(&raw[receiving ? 1 : 0], &done, MPI_STATUS_IGNORE);
            if (done != 0) return;
            if (spin >= spins) sched_yield();
          }
        });
  };
  ours(3);
  const int trips = static_cast<int>(std::clamp(5e-3 / mpi(3), 3.0, 1000.0));  // a turn takes milliseconds
  for (int turn = 0; turn < 20; ++turn) {
    best[0] = std::min(best[0], ours(trips));
    best[1] = std::min(best[1], mpi(trips));
  }
  for (MPI_Request& request : raw) MPI_Request_free(&request);
  MPI_Comm_free(&own);
  return best;
}

struct Sample {
  double measured = 1e9, simulated = 0;
  ks::Times times;  ///< of the first stage
};

/// A table and what runs it.
class Run {
 public:
  Run(const kk::Communicator& world, const ks::Table& table, const Size& size, const Model& model, const Ends& ends,
      double communication)
      : world_(world), table_(table), communication_(communication),
        tokens_("tokens", static_cast<std::size_t>(size.rows())) {
    std::vector<Blocks*> pointers;
    for (int chunk = 0; chunk < table.chunks(); ++chunk) {
      const int stage = table.stage(world.rank(), chunk);
      stages_.push_back(std::make_unique<Blocks>(model.chunk(chunk), ends, stage == 0, stage + 1 == table.stages()));
      pointers.push_back(stages_.back().get());
    }
    for (int m = 0; m < table.microbatches(); ++m) microbatches_.push_back({tokens_, tokens_, m * size.sequences});
    executor_ = std::make_unique<kk::PipelineExecutor<Blocks>>(world, table, pointers, size.rows());
    executor_->record(&recorder_);
    step();
  }

  /// From the moment when all ranks are there until the last one is done.
  Sample step() {
    recorder_.clear();
    const kk::Context<Space> context{Space(), workspace_, world_, 1, 0, 0, 0, kk::Mode::training};
    MPI_Barrier(MPI_COMM_WORLD);
    const auto start = static_cast<double>(Recorder::now());
    executor_->train(context, microbatches_, [](int, const auto&) {});
    const auto end = static_cast<double>(Recorder::now());
    Sample sample;
    sample.measured = (all(end, MPI_MAX) - all(start, MPI_MIN)) * 1e-9;
    const std::vector<ks::Times> times = measured_times();
    sample.times = times.front();
    sample.simulated = simulate(table_, times).makespan;
    return sample;
  }

 private:
  static constexpr std::size_t kinds = 4;

  /// The mean times of each stage's actions in the last step. Halves of a backward, where a stage has whole ones too,
  /// are scaled so that its work stays the same.
  std::vector<ks::Times> measured_times() const {
    const auto stages = static_cast<std::size_t>(table_.stages());
    std::vector<double> sums(2 * kinds * stages, 0.0);
    for (const kk::trace::Event& event : recorder_.events())
      for (std::size_t kind = 0; kind < kinds; ++kind)
        if (ks::to_string(static_cast<ks::ActionKind>(kind)) == event.name) {
          double* const place = sums.data() + 2 * (kinds * static_cast<std::size_t>(event.stage) + kind);
          place[0] += static_cast<double>(event.end - event.start) * 1e-9;
          place[1] += 1;
        }
    MPI_Allreduce(MPI_IN_PLACE, sums.data(), static_cast<int>(sums.size()), MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    std::vector<ks::Times> times(stages);
    for (std::size_t stage = 0; stage < stages; ++stage) {
      const auto total = [&](ks::ActionKind kind) {
        return sums[2 * (kinds * stage + static_cast<std::size_t>(kind))];
      };
      const auto count = [&](ks::ActionKind kind) {
        return sums[2 * (kinds * stage + static_cast<std::size_t>(kind)) + 1];
      };
      using enum ks::ActionKind;
      ks::Times& mine = times[stage];
      mine.communication = communication_;
      mine.forward = total(forward) / count(forward);
      if (count(backward_input) == 0) {
        mine.backward_input = total(backward) / count(backward);
        mine.backward_weight = 0;
        continue;
      }
      mine.backward_input = total(backward_input) / count(backward_input);
      mine.backward_weight = total(backward_weight) / count(backward_weight);
      const double work = total(backward) + total(backward_input) + total(backward_weight),
                   said = count(backward) * (mine.backward_input + mine.backward_weight) + total(backward_input) +
                          total(backward_weight);
      mine.backward_input *= work / said;
      mine.backward_weight *= work / said;
    }
    return times;
  }

  const kk::Communicator& world_;
  ks::Table table_;
  double communication_;
  Kokkos::View<std::int32_t*, Space> tokens_;
  std::vector<std::unique_ptr<Blocks>> stages_;
  std::vector<Blocks::Microbatch> microbatches_;
  kk::Workspace<Space> workspace_;
  Recorder recorder_;
  std::unique_ptr<kk::PipelineExecutor<Blocks>> executor_;
};

class Bench {
 public:
  explicit Bench(const Size& size) : size_(size), ends_(size) {
    kk::require(size.layers % (2 * world_.size()) == 0, size.layers, " layers are not two equal stages for each of ",
                world_.size(), " ranks");
    communication_ = hand_off(world_, static_cast<std::size_t>(size.rows() * size.width) * sizeof(float))[0] / 2;
  }

  int rank() const { return world_.rank(); }

  /// The answer to an order; the same call on every rank.
  std::string answer(std::istringstream order) {
    std::string what, name;
    int microbatches = 0, count = 0;
    order >> what;
    if (what == "step" && order >> name >> microbatches >> count && count > 0) {
      Run run = make(name, microbatches);
      Sample best;
      for (int i = 0; i < count; ++i)
        if (const Sample sample = run.step(); sample.measured < best.measured) best = sample;
      const ks::Times& t = best.times;
      return text("step ", best.measured, best.simulated, t.forward, t.backward_input, t.backward_weight,
                  t.communication);
    }
    if (what == "pair" && order >> microbatches >> count && count > 0) {
      Run one = make("1f1b", microbatches), other = make("zb-h1", microbatches);
      std::vector<double> measured, simulated;
      for (int i = 0; i < count; ++i) {
        Sample first, second;
        if (i % 2 == 0) first = one.step();
        second = other.step();
        if (i % 2 == 1) first = one.step();
        measured.push_back(first.measured - second.measured);
        simulated.push_back(first.simulated - second.simulated);
      }
      return text("pair ", median(measured), median(simulated));
    }
    if (what == "overhead") return text("overhead ", overhead());
    if (std::size_t bytes = 0; what == "hand_off" && order >> bytes && bytes > 0) {
      const auto [ours, raw] = hand_off(world_, bytes);
      return text("hand_off ", ours, raw);
    }
    throw kk::InputError("not an order: " + order.str());
  }

 private:
  template <class... Numbers>
  static std::string text(const char* what, Numbers... numbers) {
    std::ostringstream out;
    out.precision(9);
    out << what;
    ((out << ' ' << numbers), ...);
    return out.str();
  }

  Run make(const std::string& name, int microbatches) {
    constexpr std::string_view prefix = "csv:";
    ks::Table table({}, {});
    if (name.starts_with(prefix)) {
      std::ifstream file(name.substr(prefix.size()));
      table = ks::from_csv(std::string(std::istreambuf_iterator<char>(file), {}));
      kk::require(table.ranks() == world_.size(), name, " is for ", table.ranks(), " ranks");
    } else {
      ks::PipelineShape shape{world_.size(), microbatches, 1};
      if (name == "interleaved" || name == "bfs") shape.chunks = 2;
      table = ks::make_table(name, shape);
    }
    std::unique_ptr<Model>& model = models_[table.chunks()];
    if (!model) model = std::make_unique<Model>(size_, world_.size(), table.chunks());
    return Run(world_, table, size_, *model, ends_, communication_);
  }

  /// The fastest of many passes of 1F1B.
  double overhead() {
    const ks::Table table = ks::make_table<kk::OneForwardOneBackward>({world_.size(), 64, 1});
    Idle stage;
    kk::PipelineExecutor<Idle> executor(world_, table, {&stage}, 1);
    kk::Workspace<Space> workspace;
    const kk::Context<Space> context{Space(), workspace, world_, 1, 0, 0, 0, kk::Mode::training};
    const std::vector<Idle::Microbatch> microbatches(64);
    OutsideMpi& outside = OutsideMpi::instance();
    double best = 1e9;
    for (int pass = 0; pass < 300; ++pass) {
      MPI_Barrier(MPI_COMM_WORLD);
      outside.learn();
      world_.poll();
      outside.begin();
      executor.train(context, microbatches, [](int, const auto&) {});
      const double mine = outside.end() / static_cast<double>(table.actions(world_.rank()).size());
      best = std::min(best, all(mine, MPI_MAX));
    }
    return best;
  }

  Size size_;
  kk::Communicator world_{MPI_COMM_WORLD};
  Ends ends_;
  std::map<int, std::unique_ptr<Model>> models_;  ///< by chunks
  double communication_ = 0;
};

/// The next line of the input, for all ranks; empty at the end. The other ranks sleep: the rival runs meanwhile.
std::string next_order(int rank) {
  std::array<char, 1024> line{};
  std::string text;
  if (rank == 0 && std::getline(std::cin, text)) text.copy(line.data(), line.size() - 1);
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Ibcast(line.data(), static_cast<int>(line.size()), MPI_CHAR, 0, MPI_COMM_WORLD, &request);
  for (int done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return line.data();
}

void serve(const Size& size) {
  Bench bench(size);
  if (bench.rank() == 0) std::cout << "ready" << std::endl;
  while (true) {
    const std::string order = next_order(bench.rank());
    if (order.empty()) return;
    const std::string answer = bench.answer(std::istringstream(order));
    if (bench.rank() == 0) std::cout << answer << std::endl;
  }
}

}  // namespace

int main(int argc, char** argv) {
  Size size;
  CLI::App app("steps of a pipeline beside what the simulator says");
  app.add_option("--layers", size.layers)->capture_default_str();
  app.add_option("--heads", size.heads)->capture_default_str();
  app.add_option("--width", size.width)->capture_default_str();
  app.add_option("--context", size.context)->capture_default_str();
  app.add_option("--batch", size.sequences, "sequences of a microbatch")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  return kk::run(argc, argv, {.threads = 1}, [&] { serve(size); });
}
