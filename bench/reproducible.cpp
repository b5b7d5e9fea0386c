// SPDX-License-Identifier: Apache-2.0
// What a reproducible all_reduce costs beside a plain one, and beside a sum of the same shards followed by a plain one.
//
//     mpiexec -n 2 reproducible
//
// Every round runs each kind once; a time is the longest over the ranks, and the median over the rounds is printed.
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/environment.hpp>

#include "median.hpp"

namespace kk = kerkis;

namespace {

using Host = Kokkos::DefaultHostExecutionSpace;
using View = Kokkos::View<float*, Kokkos::HostSpace>;

/// Seconds of `body` on the slowest rank.
template <class Body>
double seconds(Body&& body) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto start = std::chrono::steady_clock::now();
  body();
  double mine = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), longest = 0;
  MPI_Allreduce(&mine, &longest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return longest;
}

void benchmark(std::size_t largest, std::size_t shards_each) {
  const kk::Communicator world(MPI_COMM_WORLD);
  const auto ranks = static_cast<std::size_t>(world.size());
  const bool first = world.rank() == 0;
  std::string ratios;
  if (first)
    std::printf("%10s %14s %14s %20s %14s\n", "bytes", "plain", "reproducible", "sum of shards, plain", "by shards");
  for (std::size_t bytes = 8; bytes <= largest; bytes *= 8) {
    const std::size_t count = bytes / sizeof(float);
    const View view("view", count), shards("shards", count * shards_each), result("result", count);
    // Many calls where one is short.
    const std::size_t calls = std::clamp<std::size_t>((1 << 18) / bytes, 1, 200), rounds = bytes < (1 << 20) ? 61 : 21;
    std::array<std::vector<double>, 4> times;
    for (std::size_t round = 0; round < rounds; ++round) {
      const auto timed = [&](std::size_t kind, auto&& body) {
        times[kind].push_back(seconds([&] {
                                for (std::size_t i = 0; i < calls; ++i) body();
                              }) /
                              static_cast<double>(calls));
      };
      timed(0, [&] { kk::all_reduce(Host(), world, view).wait(); });
      timed(1, [&] { kk::all_reduce(Host(), world, view, {.reproducible = true}).wait(); });
      timed(2, [&] {
        std::copy_n(shards.data(), count, result.data());
        for (std::size_t s = 1; s < shards_each; ++s)
          for (std::size_t i = 0; i < count; ++i) result(i) += shards(s * count + i);
        kk::all_reduce(Host(), world, result).wait();
      });
      timed(3, [&] { kk::all_reduce(Host(), world, shards, result, {.shards = shards_each * ranks}).wait(); });
    }
    std::array<double, 4> time;
    std::ranges::transform(times, time.begin(), median);
    if (!first) continue;
    std::printf("%10zu %11.2f µs %11.2f µs %17.2f µs %11.2f µs\n", bytes, 1e6 * time[0], 1e6 * time[1], 1e6 * time[2],
                1e6 * time[3]);
    char line[200];
    std::snprintf(line, sizeof line, "ratio comm/reproducible/%zu/%zu %.3f\nratio comm/shards/%zu/%zu %.3f\n", ranks,
                  bytes, time[0] / time[1], ranks, bytes, time[2] / time[3]);
    ratios += line;
  }
  std::printf("%s", ratios.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t largest = 16 << 20, shards = 4;
  CLI::App app("the price of a reproducible all_reduce of float");
  app.add_option("--largest", largest, "bytes")->capture_default_str();
  app.add_option("--shards", shards, "of each rank")->capture_default_str()->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  return kk::run(argc, argv, {.threads = 1}, [&] { benchmark(largest, shards); });
}
