// SPDX-License-Identifier: Apache-2.0
// Blocks are summed over the ranks while the next ones are computed. MPI moves messages only while the program is
// inside it, so the computation calls `poll` between kernels.
//
//     mpiexec -n 2 overlap

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/environment.hpp>
#include <kerkis/comm/request_range.hpp>
#include <vector>

namespace kk = kerkis;
using Space = Kokkos::DefaultExecutionSpace;

constexpr int blocks = 8, rounds = 16, elements = 100'000;

/// One of the kernels that a block takes.
void improve(const Space& execution, const Kokkos::View<double*>& block) {
  Kokkos::parallel_for(
      "improve", Kokkos::RangePolicy<Space>(execution, 0, elements),
      KOKKOS_LAMBDA(int i) { block(i) = Kokkos::sqrt(block(i) + i % 7); });
}

void example() {
  const kk::Communicator world(MPI_COMM_WORLD);
  const Space execution;
  std::vector<Kokkos::View<double*>> values;
  std::vector<kk::Request> requests;
  for (int b = 0; b < blocks; ++b) {
    const auto& block = values.emplace_back("block", elements);
    for (int round = 0; round < rounds; ++round) {
      improve(execution, block);
      world.poll();  // the sums of the blocks before move on
    }
    requests.push_back(kk::all_reduce(execution, world, block));
  }
  const auto early = std::count_if(requests.begin(), requests.end(), [](kk::Request& sum) { return sum.test(); });
  kk::wait_all(requests);  // one deadline for all of them

  double expected = 0;  // every block is the same
  for (int round = 0; round < rounds; ++round) expected = std::sqrt(expected + (elements - 1) % 7);
  for (const auto& block : values) {
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), block);
    const double sum = host(elements - 1);
    if (std::abs(sum - world.size() * expected) > 1e-12 * sum) throw kk::Error(kk::message("a sum is ", sum));
  }
  if (world.rank() == 0)
    std::printf("%d ranks: %d blocks are summed, %td of them before anybody waited\n", world.size(), blocks, early);
}

int main(int argc, char** argv) { return kk::run(argc, argv, example); }
