// SPDX-License-Identifier: Apache-2.0
// Collectives and hand-offs beside raw MPI. bench/comm.sh runs all parts:
//
// - `mpiexec -n 2 comm`: every operation, beside the same nonblocking MPI call and the blocking one
// - `mpiexec -n 4 comm --crowded`: the same where ranks share cores
// - `mpiexec -n 2 comm --views`: hand-offs of Views with gaps, beside MPI's derived types
// - `mpiexec -n 2 comm --line BITS`: a large message over a link of so many bits per second
//
// In every round each rival runs once, in all orders in turn; a time is the longest over the ranks, and what is printed
// are medians over the rounds, also of the difference and the ratio, which each round gives anew: the machine's speed
// changes between rounds, and is nearly the same within one. The nonblocking rival waits as the library does: it tests,
// then yields, then sleeps.
#include <benchmark/benchmark.h>
#include <mpi.h>
#include <sched.h>

#include <CLI/CLI.hpp>
#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/all_to_all.hpp>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/environment.hpp>
#include <kerkis/comm/exclusive_scan.hpp>
#include <kerkis/comm/gather.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/reduce.hpp>
#include <kerkis/comm/reduce_scatter.hpp>
#include <kerkis/comm/scan.hpp>
#include <kerkis/comm/scatter.hpp>
#include <kerkis/comm/shift.hpp>

#include "median.hpp"

namespace kk = kerkis;

namespace {

using Clock = std::chrono::steady_clock;
using Host = Kokkos::DefaultHostExecutionSpace;
using Body = std::function<void()>;

/// The rivals of one comparison, each a call by every rank. `hops`: messages one after the other in a call.
struct Case {
  std::string name;
  std::size_t bytes;
  std::array<Body, 3> bodies;  ///< ours, the nonblocking call, the blocking one
  int hops = 1;
};

/// Raw MPI with the library's wait.
struct Raw {
  MPI_Comm world = MPI_COMM_NULL;
  int rank = 0, size = 1;
  kk::WaitPolicy policy;

  explicit Raw(const kk::WaitPolicy& wait_policy) : policy(wait_policy) {
    MPI_Comm_dup(MPI_COMM_WORLD, &world);
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
  }
  Raw(const Raw&) = delete;
  Raw& operator=(const Raw&) = delete;
  ~Raw() { MPI_Comm_free(&world); }

  void wait(MPI_Request& request) const {
    int done = 0;
    for (int spin = 0; spin < policy.spins; ++spin) {
      MPI_Test(&request, &done, MPI_STATUS_IGNORE);
      if (done != 0) return;
    }
    const auto start = Clock::now();
    while (MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0) {
      if (Clock::now() - start < *policy.sleep_after)
        sched_yield();
      else
        std::this_thread::sleep_for(policy.sleep);
    }
  }

  template <class Call, class... Arguments>
  void operator()(Call* call, Arguments... arguments) const {
    MPI_Request request = MPI_REQUEST_NULL;
    call(arguments..., &request);
    wait(request);
  }

  void exchange(const void* send, int sent, MPI_Datatype sent_type, int to, void* receive, int received,
                MPI_Datatype received_type, int from) const {
    MPI_Request incoming = MPI_REQUEST_NULL, outgoing = MPI_REQUEST_NULL;
    MPI_Irecv(receive, received, received_type, from, 0, world, &incoming);
    MPI_Isend(send, sent, sent_type, to, 0, world, &outgoing);
    wait(incoming);
    wait(outgoing);
  }
};

/// Seconds of a call, on the slowest rank.
double seconds(const Raw& raw, const Body& body, int calls) {
  raw(&MPI_Ibarrier, raw.world);
  const auto start = Clock::now();
  for (int i = 0; i < calls; ++i) body();
  double time = std::chrono::duration<double>(Clock::now() - start).count();
  raw(&MPI_Iallreduce, static_cast<const void*>(MPI_IN_PLACE), static_cast<void*>(&time), 1, MPI_DOUBLE, MPI_MAX,
      raw.world);
  return time / calls;
}

struct Settings {
  bool crowded = false, views = false;
  double line = 0;
  std::vector<std::size_t> sizes{};
};

/// How a comparison runs: so many rounds, and in each so many calls of each rival; the same on all ranks.
struct Amount {
  int rounds = 0;
  std::array<int, 3> calls{};
};

/// A second in all, as far as that gives 9 to 1001 rounds.
Amount amount(const Raw& raw, const Case& what, const Settings& settings) {
  const auto few = std::clamp<std::size_t>(400'000 / std::max<std::size_t>(what.bytes, 1), 1, 100);
  Amount amount;
  double round = 0;
  for (std::size_t kind = 0; kind < 3; ++kind) {
    if (!what.bodies[kind]) continue;
    seconds(raw, what.bodies[kind], 1);
    const double call = seconds(raw, what.bodies[kind], 2);
    amount.calls[kind] = settings.crowded ? (call > 1e-3 ? 2 : 20) : static_cast<int>(few);
    round += call * amount.calls[kind];
  }
  amount.rounds = static_cast<int>(std::clamp(1 / round, 9.0, 1001.0));
  return amount;
}

void compare(benchmark::State& state, const Raw& raw, const Case& what, const Amount& much, std::size_t rival) {
  static constexpr std::array<std::array<std::size_t, 3>, 6> orders{
      {{0, 1, 2}, {1, 0, 2}, {2, 0, 1}, {2, 1, 0}, {1, 2, 0}, {0, 2, 1}}};
  static constexpr std::array names = {"ours", "nonblocking", "blocking"};
  std::array<std::vector<double>, 3> times;
  for (auto _ : state) {
    for (const std::size_t kind : orders[times[0].size() % orders.size()])
      if (what.bodies[kind]) times[kind].push_back(seconds(raw, what.bodies[kind], much.calls[kind]) / what.hops);
    state.SetIterationTime(times[0].back());
  }
  for (std::size_t kind = 0; kind < 3; ++kind)
    if (what.bodies[kind]) state.counters[names[kind]] = median(times[kind]);
  std::vector<double> more, ratios;
  for (std::size_t i = 0; i < times[0].size(); ++i) {
    more.push_back(times[0][i] - times[1][i]);
    ratios.push_back(times[rival][i] / times[0][i]);
  }
  state.counters["more"] = median(std::move(more));
  state.counters["ratio"] = median(std::move(ratios));
  state.counters["bytes"] = static_cast<double>(what.bytes);
}

/// One line for each comparison, and the ratios at the end; on other ranks than 0 nothing.
class Table final : public benchmark::BenchmarkReporter {
 public:
  Table(const Raw& raw, bool crowded, double line) : raw_(raw), crowded_(crowded), line_(line) {}

  bool ReportContext(const Context&) override {
    if (raw_.rank != 0) return true;
    std::printf("%-16s %10s %13s %16s %9s %7s %15s\n", "operation", "bytes", "kerkis", "nonblocking MPI", "more",
                "ratio", crowded_ || line_ > 0 ? "blocking MPI" : "(blocking MPI)");
    return true;
  }
  void ReportRuns(const std::vector<Run>& runs) override {
    if (raw_.rank != 0) return;
    for (const Run& run : runs) {
      const auto time = [&](const char* kind) {
        const auto found = run.counters.find(kind);
        return found == run.counters.end() ? 0 : 1e6 * static_cast<double>(found->second);
      };
      const double ours = time("ours"), blocking = time("blocking"), ratio = run.counters.at("ratio");
      const auto bytes = static_cast<std::size_t>(run.counters.at("bytes"));
      const std::string& name = run.run_name.function_name;
      const std::string operation = name.substr(0, name.find('/'));
      std::printf("%-16s %10zu %10.2f µs %13.2f µs %+6.2f µs %7.3f", operation.c_str(), bytes, ours,
                  time("nonblocking"), time("more"), ratio);
      if (blocking > 0) std::printf(" %12.2f µs", blocking);
      if (crowded_) std::printf(" = %.0f times", ratio);
      const double at_line = line_ > 0 ? 8e6 * static_cast<double>(bytes) / line_ : 0;
      if (line_ > 0) std::printf("  %.1f %% of the line", 100 * at_line / ours);
      std::printf("\n");
      std::fflush(stdout);
      ratios_ += kk::message("ratio comm/", line_ > 0 ? "line_rate" : operation, "/", raw_.size, "/", bytes, " ");
      std::array<char, 32> value;
      std::snprintf(value.data(), value.size(), "%.3f\n", line_ > 0 ? at_line / ours : ratio);
      ratios_ += value.data();
    }
  }
  void Finalize() override { std::printf("%s", ratios_.c_str()); }

 private:
  const Raw& raw_;
  bool crowded_;
  double line_;
  std::string ratios_;
};

/// Every operation with blocks of `bytes`: what one rank gives, or each gets, in one call.
std::vector<Case> operations(const kk::Communicator& world, const Raw& raw, const Kokkos::View<float*>& from,
                             const Kokkos::View<float*>& to, std::size_t bytes) {
  const std::size_t n = bytes / sizeof(float), all = n * static_cast<std::size_t>(raw.size);
  const int count = static_cast<int>(n), peer = raw.rank ^ 1;
  const int right = (raw.rank + 1) % raw.size, left = (raw.rank + raw.size - 1) % raw.size;
  const auto part = [](const Kokkos::View<float*>& view, std::size_t length) {
    return Kokkos::subview(view, std::pair<std::size_t, std::size_t>(0, length));
  };
  const auto mine = part(from, n), ours = part(to, n), send = part(from, all), receive = part(to, all);
  const void* const in = from.data();
  void* const out = to.data();
  const MPI_Comm comm = raw.world;
  const MPI_Datatype type = MPI_FLOAT;
  const Host host;

  std::vector<Case> cases;
  if (bytes <= 8)
    cases.push_back(
        {"barrier",
         0,
         {[&] { kk::barrier(world).wait(); }, [&, comm] { raw(&MPI_Ibarrier, comm); }, [comm] { MPI_Barrier(comm); }}});
  cases.push_back({"all_reduce",
                   bytes,
                   {[=, &world] { kk::all_reduce(host, world, ours).wait(); },
                    [=, &raw] { raw(&MPI_Iallreduce, MPI_IN_PLACE, out, count, type, MPI_SUM, comm); },
                    [=] { MPI_Allreduce(MPI_IN_PLACE, out, count, type, MPI_SUM, comm); }}});
  cases.push_back({"reduce",
                   bytes,
                   {[=, &world] { kk::reduce(host, world, mine, ours).wait(); },
                    [=, &raw] { raw(&MPI_Ireduce, in, out, count, type, MPI_SUM, 0, comm); },
                    [=] { MPI_Reduce(in, out, count, type, MPI_SUM, 0, comm); }}});
  cases.push_back({"reduce_scatter",
                   bytes,
                   {[=, &world] { kk::reduce_scatter(host, world, send, ours).wait(); },
                    [=, &raw] { raw(&MPI_Ireduce_scatter_block, in, out, count, type, MPI_SUM, comm); },
                    [=] { MPI_Reduce_scatter_block(in, out, count, type, MPI_SUM, comm); }}});
  cases.push_back({"all_gather",
                   bytes,
                   {[=, &world] { kk::all_gather(host, world, mine, receive).wait(); },
                    [=, &raw] { raw(&MPI_Iallgather, in, count, type, out, count, type, comm); },
                    [=] { MPI_Allgather(in, count, type, out, count, type, comm); }}});
  cases.push_back({"gather",
                   bytes,
                   {[=, &world] { kk::gather(host, world, mine, receive).wait(); },
                    [=, &raw] { raw(&MPI_Igather, in, count, type, out, count, type, 0, comm); },
                    [=] { MPI_Gather(in, count, type, out, count, type, 0, comm); }}});
  cases.push_back({"scatter",
                   bytes,
                   {[=, &world] { kk::scatter(host, world, send, ours).wait(); },
                    [=, &raw] { raw(&MPI_Iscatter, in, count, type, out, count, type, 0, comm); },
                    [=] { MPI_Scatter(in, count, type, out, count, type, 0, comm); }}});
  cases.push_back({"all_to_all",
                   bytes,
                   {[=, &world] { kk::all_to_all(host, world, send, receive).wait(); },
                    [=, &raw] { raw(&MPI_Ialltoall, in, count, type, out, count, type, comm); },
                    [=] { MPI_Alltoall(in, count, type, out, count, type, comm); }}});
  cases.push_back(
      {"broadcast",
       bytes,
       {[=, &world] { kk::broadcast(host, world, ours).wait(); },
        [=, &raw] { raw(&MPI_Ibcast, out, count, type, 0, comm); }, [=] { MPI_Bcast(out, count, type, 0, comm); }}});
  cases.push_back({"scan",
                   bytes,
                   {[=, &world] { kk::scan(host, world, mine, ours).wait(); },
                    [=, &raw] { raw(&MPI_Iscan, in, out, count, type, MPI_SUM, comm); },
                    [=] { MPI_Scan(in, out, count, type, MPI_SUM, comm); }}});
  cases.push_back({"exclusive_scan",
                   bytes,
                   {[=, &world] { kk::exclusive_scan(host, world, mine, ours).wait(); },
                    [=, &raw] { raw(&MPI_Iexscan, in, out, count, type, MPI_SUM, comm); },
                    [=] { MPI_Exscan(in, out, count, type, MPI_SUM, comm); }}});
  cases.push_back(
      {"exchange",
       bytes,
       {[=, &world] { kk::exchange(host, world, mine, ours, {.with = peer}).wait(); },
        [=, &raw] { raw.exchange(in, count, type, peer, out, count, type, peer); },
        [=] { MPI_Sendrecv(in, count, type, peer, 0, out, count, type, peer, 0, comm, MPI_STATUS_IGNORE); }}});
  cases.push_back(
      {"shift",
       bytes,
       {[=, &world] { kk::shift(host, world, mine, ours).wait(); },
        [=, &raw] { raw.exchange(in, count, type, right, out, count, type, left); },
        [=] { MPI_Sendrecv(in, count, type, right, 0, out, count, type, left, 0, comm, MPI_STATUS_IGNORE); }}});
  // There and back.
  const bool first = raw.rank < peer;
  cases.push_back({"hand_off",
                   bytes,
                   {[=, &world] {
                      if (first) kk::send(host, world, mine, {.to = peer}).wait();
                      kk::receive(host, world, ours, {.from = peer}).wait();
                      if (!first) kk::send(host, world, mine, {.to = peer}).wait();
                    },
                    [=, &raw] {
                      if (first) raw(&MPI_Isend, in, count, type, peer, 0, comm);
                      raw(&MPI_Irecv, out, count, type, peer, 0, comm);
                      if (!first) raw(&MPI_Isend, in, count, type, peer, 0, comm);
                    },
                    [=] {
                      if (first) MPI_Send(in, count, type, peer, 0, comm);
                      MPI_Recv(out, count, type, peer, 0, comm, MPI_STATUS_IGNORE);
                      if (!first) MPI_Send(in, count, type, peer, 0, comm);
                    }},
                   2});
  return cases;
}

/// An MPI type, freed with the last case that uses it.
std::shared_ptr<MPI_Datatype> own(MPI_Datatype type) {
  MPI_Type_commit(&type);
  return {new MPI_Datatype(type), [](MPI_Datatype* last) {
            MPI_Type_free(last);
            delete last;
          }};
}

/// There and back: a View beside the same elements as an MPI type at `base`.
template <class View>
Case view_case(const char* name, const kk::Communicator& world, const Raw& raw, const View& view, void* base,
               MPI_Datatype native) {
  const auto type = own(native);
  const int peer = 1 - raw.rank;
  const bool first = raw.rank == 0;
  const MPI_Comm comm = raw.world;
  const Host host;
  return {name,
          view.size() * sizeof(double),
          {[=, &world] {
             if (first) kk::send(host, world, view, {.to = peer}).wait();
             kk::receive(host, world, view, {.from = peer}).wait();
             if (!first) kk::send(host, world, view, {.to = peer}).wait();
           },
           [=, &raw] {
             if (first) raw(&MPI_Isend, base, 1, *type, peer, 0, comm);
             raw(&MPI_Irecv, base, 1, *type, peer, 0, comm);
             if (!first) raw(&MPI_Isend, base, 1, *type, peer, 0, comm);
           },
           [=] {
             if (first) MPI_Send(base, 1, *type, peer, 0, comm);
             MPI_Recv(base, 1, *type, peer, 0, comm, MPI_STATUS_IGNORE);
             if (!first) MPI_Send(base, 1, *type, peer, 0, comm);
           }},
          2};
}

std::vector<Case> views_with_gaps(const kk::Communicator& world, const Raw& raw) {
  using Matrix = Kokkos::View<double**, Kokkos::LayoutRight>;
  using Grid = Kokkos::View<double***, Kokkos::LayoutRight>;
  using Range = std::pair<int, int>;
  std::vector<Case> cases;
  for (const int rows : {128, 1000, 1024, 4096, 65536}) {
    const Matrix matrix("matrix", static_cast<std::size_t>(rows), 64);
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_vector(rows, 1, 64, MPI_DOUBLE, &type);
    cases.push_back(view_case("column", world, raw, Kokkos::subview(matrix, Kokkos::ALL, 3), &matrix(0, 3), type));
  }
  for (const int n : {11, 32, 64, 256, 1024}) {
    const Matrix matrix("matrix", static_cast<std::size_t>(2 * n), static_cast<std::size_t>(2 * n));
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_vector(n, n, 2 * n, MPI_DOUBLE, &type);
    const Range inner(n / 2, n / 2 + n);
    cases.push_back(
        view_case("inner_block", world, raw, Kokkos::subview(matrix, inner, inner), &matrix(n / 2, n / 2), type));
  }
  for (const int n : {11, 31, 32, 64, 192}) {
    const auto whole = static_cast<std::size_t>(n + 2);
    const Grid grid("grid", whole, whole, whole);
    const Range inner(1, n + 1);
    const std::array<int, 3> extents{n + 2, n + 2, n + 2};
    const auto face = [&](std::array<int, 3> sizes) {
      const std::array<int, 3> starts{1, 1, 1};
      MPI_Datatype type = MPI_DATATYPE_NULL;
      MPI_Type_create_subarray(3, extents.data(), sizes.data(), starts.data(), MPI_ORDER_C, MPI_DOUBLE, &type);
      return type;
    };
    cases.push_back(
        view_case("face_of_rows", world, raw, Kokkos::subview(grid, inner, 1, inner), grid.data(), face({n, 1, n})));
    cases.push_back(
        view_case("face_of_points", world, raw, Kokkos::subview(grid, inner, inner, 1), grid.data(), face({n, n, 1})));
  }
  return cases;
}

/// A message to the other host, which says when it has come.
Case line_case(const kk::Communicator& world, const Raw& raw, const Kokkos::View<float*>& message) {
  const Kokkos::View<float*> empty("empty", 0);
  const int count = static_cast<int>(message.size());
  float* const data = message.data();
  const bool sends = raw.rank == 0;
  const MPI_Comm comm = raw.world;
  const Host host;
  return {"hand_off",
          message.size() * sizeof(float),
          {[=, &world] {
             if (sends) {
               kk::send(host, world, message, {.to = 1}).wait();
               kk::receive(host, world, empty, {.from = 1}).wait();
             } else {
               kk::receive(host, world, message, {.from = 0}).wait();
               kk::send(host, world, empty, {.to = 0}).wait();
             }
           },
           [=, &raw] {
             if (sends) {
               raw(&MPI_Isend, data, count, MPI_FLOAT, 1, 0, comm);
               raw(&MPI_Irecv, data, 0, MPI_FLOAT, 1, 0, comm);
             } else {
               raw(&MPI_Irecv, data, count, MPI_FLOAT, 0, 0, comm);
               raw(&MPI_Isend, data, 0, MPI_FLOAT, 0, 0, comm);
             }
           },
           {}}};
}

void run(const Settings& settings) {
  const kk::Communicator world(MPI_COMM_WORLD);
  const Raw raw(world.options().wait);
  kk::require(raw.size % 2 == 0, "this takes an even number of ranks, not ", raw.size);
  std::vector<std::size_t> sizes = settings.sizes;
  if (sizes.empty())
    sizes = settings.line > 0  ? std::vector<std::size_t>{64u << 20}
            : settings.crowded ? std::vector<std::size_t>{8, 4096}
                               : std::vector<std::size_t>{8, 1024, 32u << 10, 1u << 20, 64u << 20};
  std::vector<Case> cases;
  const std::size_t most = *std::max_element(sizes.begin(), sizes.end()) / sizeof(float);
  const std::size_t ranks = static_cast<std::size_t>(raw.size);
  if (settings.views) {
    cases = views_with_gaps(world, raw);
  } else if (settings.line > 0) {
    cases.push_back(line_case(world, raw, Kokkos::View<float*>("message", most)));
  } else {
    const Kokkos::View<float*> from("from", most * ranks), to("to", most * ranks);
    for (const std::size_t bytes : sizes)
      for (auto& one : operations(world, raw, from, to, bytes)) cases.push_back(std::move(one));
  }
  for (const Case& one : cases) {
    const Amount much = amount(raw, one, settings);
    benchmark::RegisterBenchmark(
        one.name + "/" + std::to_string(one.bytes),
        [&, much](benchmark::State& state) { compare(state, raw, one, much, settings.crowded ? 2 : 1); })
        ->UseManualTime()
        ->Iterations(much.rounds);
  }
  Table table(raw, settings.crowded, settings.line);
  benchmark::RunSpecifiedBenchmarks(&table);
  benchmark::ClearRegisteredBenchmarks();
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  Settings settings;
  CLI::App app("collectives and hand-offs beside raw MPI");
  app.add_flag("--crowded", settings.crowded, "few calls of the blocking rival, which is slow where ranks share cores");
  app.add_flag("--views", settings.views, "hand-offs of Views with gaps");
  app.add_option("--line", settings.line, "bits per second of the link between two hosts");
  app.add_option("--sizes", settings.sizes, "bytes");
  CLI11_PARSE(app, argc, argv);
  return kk::run(argc, argv, {.threads = 1}, [&] { run(settings); });
}
