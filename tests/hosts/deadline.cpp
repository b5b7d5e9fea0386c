// SPDX-License-Identifier: Apache-2.0
// Reduces, or with the argument `shift` hands on along a ring, until a wait fails; then each rank says what it caught
// and how long after its last success, in a file report.RANK of the current folder: launchers mix the lines of several
// ranks. It stays for a while before it leaves, since the launcher kills the others when the first one has left. With
// the argument `watch` the ranks tell the other hosts what they do.
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/shift.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <thread>

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

int main(int argc, char** argv) {
  int provided = 0, rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  Kokkos::initialize(Kokkos::InitializationSettings().set_num_threads(1).set_disable_warnings(true));
  bool watch = false, shifts = false;
  for (int i = 1; i < argc; ++i) {
    watch |= std::string_view(argv[i]) == "watch";
    shifts |= std::string_view(argv[i]) == "shift";
  }
  const kerkis::Communicator world(MPI_COMM_WORLD, "world", {.watch = watch});
  const Kokkos::View<double*, Kokkos::HostSpace> view("view", 1000);
  std::FILE* report = std::fopen(("report." + std::to_string(rank)).c_str(), "w");
  if (report == nullptr) MPI_Abort(MPI_COMM_WORLD, 2);
  auto last = Clock::now();
  const Kokkos::DefaultHostExecutionSpace host;
  const auto communicate = [&] {
    if (shifts)
      kerkis::shift(host, world, view, {.deadline = 3s}).wait();
    else
      kerkis::all_reduce(host, world, view, {.deadline = 3s}).wait();
    last = Clock::now();
  };
  try {
    communicate();
    if (rank == 0) std::puts("all ranks have met");
    std::fflush(stdout);
    for (const auto start = last; last - start < 60s;) communicate();
    std::fprintf(report, "rank %d caught nothing\n", rank);
  } catch (const std::exception& error) {
    const std::chrono::duration<double> waited = Clock::now() - last;
    std::fprintf(report, "rank %d caught after %.1f s: %s\n", rank, waited.count(), error.what());
  }
  std::fclose(report);
  std::this_thread::sleep_for(5s);
  std::_Exit(1);
}
