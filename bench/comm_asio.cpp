// SPDX-License-Identifier: Apache-2.0
// What the Boost.Asio bridge adds to an operation: a chain of operations awaited by a coroutine beside the same chain
// of `wait`s.
//
//     mpiexec -n 2 comm_asio
//
// In every round both run, in turn; a time is the longest over the ranks, and medians over the rounds are printed. What
// the bridge adds is the median of the rounds' differences: where all times change in a while, this does not.
#include <benchmark/benchmark.h>
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <cstdio>
#include <exception>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <kerkis/asio/bridge.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/environment.hpp>
#include <kerkis/comm/exchange.hpp>

#include "median.hpp"

namespace kk = kerkis;
namespace net = boost::asio;

namespace {

using Clock = std::chrono::steady_clock;
using Start = std::function<kk::Request()>;

struct Case {
  std::string name;
  std::size_t bytes;
  Start start;
};

constexpr int calls = 100, rounds = 501;

/// Seconds of an operation, on the slowest rank.
template <class Body>
double seconds(const kk::Communicator& world, const Body& body) {
  kk::barrier(world).wait();
  const auto start = Clock::now();
  body();
  const Kokkos::View<double*, Kokkos::HostSpace> time("time", 1);
  time(0) = std::chrono::duration<double>(Clock::now() - start).count() / calls;
  kk::all_reduce(Kokkos::DefaultHostExecutionSpace(), world, time, {.operation = kk::Reduction::maximum}).wait();
  return time(0);
}

/// A parameter, not a capture: a coroutine outlives the lambda that made it.
net::awaitable<void> chain(kk::asio::Bridge& bridge, const Start& start) {
  for (int i = 0; i < calls; ++i) co_await bridge.async_wait(start(), net::use_awaitable);
}

void compare(benchmark::State& state, const kk::Communicator& world, const Case& what) {
  net::io_context io;
  kk::asio::Bridge bridge(io);
  const auto waits = [&] {
    for (int i = 0; i < calls; ++i) what.start().wait();
  };
  const auto awaits = [&] {
    io.restart();
    net::co_spawn(io, chain(bridge, what.start), [](std::exception_ptr error) {
      if (error) std::rethrow_exception(error);
    });
    io.run();
  };
  std::array<std::vector<double>, 2> times;
  std::vector<double> more;
  for (auto _ : state) {
    const bool waits_first = times[0].size() % 2 == 1;
    if (waits_first) times[1].push_back(seconds(world, waits));
    times[0].push_back(seconds(world, awaits));
    if (!waits_first) times[1].push_back(seconds(world, waits));
    more.push_back(times[0].back() - times[1].back());
    state.SetIterationTime(times[0].back());
  }
  state.counters["awaited"] = median(times[0]);
  state.counters["waited"] = median(times[1]);
  state.counters["more"] = median(more);
  state.counters["bytes"] = static_cast<double>(what.bytes);
}

/// One line for each comparison, and the ratios at the end; on other ranks than 0 nothing.
class Table final : public benchmark::BenchmarkReporter {
 public:
  explicit Table(const kk::Communicator& world) : world_(world) {}

  bool ReportContext(const Context&) override {
    if (world_.rank() == 0) std::printf("%-16s %10s %13s %16s %9s\n", "operation", "bytes", "co_await", "wait", "more");
    return true;
  }
  void ReportRuns(const std::vector<Run>& runs) override {
    if (world_.rank() != 0) return;
    for (const Run& run : runs) {
      const double awaited = 1e6 * run.counters.at("awaited"), waited = 1e6 * run.counters.at("waited");
      const auto bytes = static_cast<std::size_t>(run.counters.at("bytes"));
      const std::string& name = run.run_name.function_name;
      const std::string operation = name.substr(0, name.find('/'));
      std::printf("%-16s %10zu %10.2f µs %13.2f µs %+6.2f µs\n", operation.c_str(), bytes, awaited, waited,
                  1e6 * run.counters.at("more"));
      std::array<char, 32> value;
      std::snprintf(value.data(), value.size(), "%.3f\n", waited / awaited);
      ratios_ += kk::message("ratio comm/asio_", operation, "/", world_.size(), "/", bytes, " ", value.data());
    }
  }
  void Finalize() override { std::printf("%s", ratios_.c_str()); }

 private:
  const kk::Communicator& world_;
  std::string ratios_;
};

void run() {
  const kk::Communicator world(MPI_COMM_WORLD);
  kk::require(world.size() % 2 == 0, "this takes an even number of ranks, not ", world.size());
  const Kokkos::DefaultHostExecutionSpace host;
  std::vector<Case> cases;
  for (const std::size_t bytes : {std::size_t{8}, std::size_t{4096}, std::size_t{64} << 10}) {
    using View = Kokkos::View<float*, Kokkos::HostSpace>;
    const View from("from", bytes / sizeof(float)), to("to", bytes / sizeof(float));
    cases.push_back({"all_reduce", bytes, [=, &world] { return kk::all_reduce(host, world, to); }});
    cases.push_back(
        {"exchange", bytes, [=, &world] { return kk::exchange(host, world, from, to, {.with = world.rank() ^ 1}); }});
  }
  for (const Case& one : cases)
    benchmark::RegisterBenchmark(one.name + "/" + std::to_string(one.bytes),
                                 [&](benchmark::State& state) { compare(state, world, one); })
        ->UseManualTime()
        ->Iterations(rounds);
  Table table(world);
  benchmark::RunSpecifiedBenchmarks(&table);
  benchmark::ClearRegisteredBenchmarks();
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  CLI::App app("the Boost.Asio bridge beside plain waits");
  CLI11_PARSE(app, argc, argv);
  return kk::run(argc, argv, {.threads = 1}, [] { run(); });
}
