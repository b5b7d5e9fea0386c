// SPDX-License-Identifier: Apache-2.0
// One way to end a program per argument; CTest looks at what is printed and at the exit status.
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/environment.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/persistent_collective.hpp>
#include <kerkis/comm/persistent_hand_off.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string_view>
#include <thread>

using namespace std::chrono_literals;

namespace {

constexpr kerkis::EnvironmentOptions options{.threads = 1};
constexpr kerkis::EnvironmentOptions for_ever{.threads = 1, .deadline = std::chrono::milliseconds::max()};

void odd_width() { throw kerkis::InputError("width 3 is odd"); }

/// With a communicator that the others wait in while the last rank does something else.
template <class F>
void with_last(F&& f) {
  const kerkis::Communicator world(MPI_COMM_WORLD);
  if (world.rank() == world.size() - 1) f();
  kerkis::barrier(world).wait();
}

void print_ranks() {
  const kerkis::Communicator world(MPI_COMM_WORLD);
  kerkis::barrier(world).wait();
  if (world.rank() == 0)
    std::printf("program: %d ranks, %s\n", world.size(), Kokkos::is_initialized() ? "with Kokkos" : "without Kokkos");
}

int own(int argc, char** argv, void (*body)()) {
  MPI_Init(&argc, &argv);
  Kokkos::initialize(Kokkos::InitializationSettings().set_num_threads(1).set_disable_warnings(true));
  const int status = kerkis::run(argc, argv, options, body);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0 && Kokkos::is_initialized()) std::printf("program: still alive\n");
  Kokkos::finalize();
  MPI_Finalize();
  return status;
}

struct Span {
  int begin, length;
};
struct Longest {
  static constexpr bool commutes = true;
  Span operator()(const Span& a, const Span& b) const {
    return a.length < b.length || (a.length == b.length && b.begin < a.begin) ? b : a;
  }
};

/// MPI ends before what stands on it, which must leave MPI alone: a call after MPI_Finalize ends the program.
int mpi_ends_first(int argc, char** argv, bool with_rounds) {
  MPI_Init(&argc, &argv);
  Kokkos::initialize(Kokkos::InitializationSettings().set_num_threads(1).set_disable_warnings(true));
  int rank = 0;
  {
    const Kokkos::DefaultHostExecutionSpace host;
    const kerkis::Communicator world(MPI_COMM_WORLD), part = world.split(0, world.rank(), "part");
    rank = world.rank();
    // An operation, a type of structs, and one of an array's columns, which long messages take.
    const Kokkos::View<Span*, Kokkos::HostSpace> spans("spans", 3);
    Kokkos::deep_copy(spans, Span{rank, 7});
    kerkis::all_reduce<Longest>(host, world, spans).wait();
    const Kokkos::View<double**, Kokkos::LayoutRight, Kokkos::HostSpace> out("out", 1000, 2), in("in", 1000, 2);
    const auto column = [](const auto& view) { return Kokkos::subview(view, Kokkos::ALL, 1); };
    kerkis::PersistentRequest sum = kerkis::persistent_all_reduce<Longest>(host, world, spans), sends, receives;
    kerkis::Request round, nothing;
    if (world.size() > 1) {
      const int next = (rank + 1) % world.size(), previous = (rank + world.size() - 1) % world.size();
      kerkis::Request comes = kerkis::receive(host, part, column(in), {.from = previous});
      kerkis::send(host, part, column(out), {.to = next}).wait();
      comes.wait();
      sends = kerkis::persistent_send(host, part, column(out), {.to = next});
      receives = kerkis::persistent_receive(host, part, column(in), {.from = previous});
      if (with_rounds) {  // to which nothing comes
        nothing = kerkis::receive(host, world, spans, {.from = kerkis::any_rank, .tag = 1});
        round = receives.start();
      }
    }
    sum.start().wait();
    kerkis::barrier(world).wait();
    MPI_Finalize();
  }
  Kokkos::finalize();
  if (rank == 0) std::printf("program: MPI has ended first\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view way = argc > 1 ? argv[1] : "";
  const auto run = [&](auto body) { return kerkis::run(argc, argv, options, body); };

  if (way == "normal") return run(print_ranks);
  if (way == "for_ever") return kerkis::run(argc, argv, for_ever, print_ranks);
  if (way == "status") return run([] { return 3; });
  if (way == "input")
    return run([] {
      const kerkis::Communicator world(MPI_COMM_WORLD);
      odd_width();
    });
  if (way == "input_early") return run(odd_width);
  if (way == "input_on_last") return run([] { with_last(odd_width); });
  if (way == "error")
    return run([] {
      const kerkis::Communicator world(MPI_COMM_WORLD);
      throw kerkis::Error("the loss is not finite");
    });
  if (way == "throws_on_last") return run([] { with_last([] { throw std::runtime_error("thrown on purpose"); }); });
  if (way == "no_exception") return run([] { with_last([] { throw 1; }); });
  if (way == "exits_on_last") return run([] { with_last([] { std::exit(0); }); });
  if (way == "returns_on_first")
    return run([] {
      const kerkis::Communicator world(MPI_COMM_WORLD);
      if (world.rank() != 0) throw std::runtime_error("thrown on purpose");
    });
  if (way == "expires")
    return run([] {
      const kerkis::Communicator world(MPI_COMM_WORLD);
      if (world.rank() != 0) kerkis::barrier(world, {.deadline = 300ms}).wait();
    });
  if (way == "dropped")
    return run([] {
      const kerkis::Communicator world(MPI_COMM_WORLD);
      const Kokkos::View<int*, Kokkos::HostSpace> view("view", 1);
      if (world.rank() == 1)
        kerkis::receive(Kokkos::DefaultHostExecutionSpace(), world, view, {.from = 0, .deadline = 300ms});
    });
  if (way == "detached")
    return run([] {
      int rank = 0;
      MPI_Comm_rank(MPI_COMM_WORLD, &rank);
      const kerkis::Communicator world(MPI_COMM_WORLD, "world", {.wait = {.deadline = rank == 0 ? 300ms : 30s}});
      const Kokkos::View<int*, Kokkos::HostSpace> view("view", 1 << 20);
      if (world.rank() == 0) kerkis::send(Kokkos::DefaultHostExecutionSpace(), world, view, {.to = 1}).detach();
    });
  if (way == "unreceived" || way == "unreceived_in_part")
    return run([&] {
      const kerkis::Communicator world(MPI_COMM_WORLD);
      const kerkis::Communicator all = way == "unreceived" ? world : world.split(0, -world.rank(), "part");
      const Kokkos::View<int*, Kokkos::HostSpace> view("view", 10);
      if (world.rank() == 0)
        kerkis::send(Kokkos::DefaultHostExecutionSpace(), all, view, {.to = (all.rank() + 1) % all.size(), .tag = 7})
            .wait();
      kerkis::barrier(all).wait();
    });
  if (way == "absent")
    return run([] {
      int rank = 0;
      MPI_Comm_rank(MPI_COMM_WORLD, &rank);
      if (rank != 0) kerkis::Communicator(MPI_COMM_WORLD, "world", {.wait = {.deadline = 300ms}});
    });
  if (way == "late") {
    auto reports = options;
    reports.first_report = 200ms;
    return kerkis::run(argc, argv, reports, [] {
      int rank = 0;
      MPI_Comm_rank(MPI_COMM_WORLD, &rank);
      if (rank == 0) std::this_thread::sleep_for(1s);
    });
  }
  if (way == "killed") return run([] { with_last([] { std::raise(SIGKILL); }); });
  if (way == "never_ended")
    return run([] {
      static const kerkis::Communicator world(MPI_COMM_WORLD, "world", {.check = true});
      static const kerkis::Request forgotten = kerkis::barrier(world);
      const Kokkos::View<int, Kokkos::HostSpace> view("view");
      const int next = (world.rank() + 1) % world.size();
      static auto* const repeated = new auto(  // Views may not outlive Kokkos
          kerkis::persistent_receive(Kokkos::DefaultHostExecutionSpace(), world, view, {.from = next}));
      static const kerkis::Request round = repeated->start();
      kerkis::barrier(world).wait();
    });
  if (way == "no_kokkos") {
    int status = 0;
#pragma omp parallel num_threads(2)
#pragma omp master
    status = run(print_ranks);  // Kokkos' OpenMP does not start here
    return status;
  }
  if (way == "own") return own(argc, argv, print_ranks);
  if (way == "own_input") return own(argc, argv, odd_width);
  if (way == "mpi_ends_first") return mpi_ends_first(argc, argv, false);
  if (way == "mpi_ends_first_pending") return mpi_ends_first(argc, argv, true);
  if (way == "alone") {
    kerkis::Environment environment(argc, argv, options);
    print_ranks();
    return 0;
  }
  return 99;
}
