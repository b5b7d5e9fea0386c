// SPDX-License-Identifier: Apache-2.0
// An axis of your own beside the library's: the members of an ensemble, each with random numbers of its own, while the
// samples of each are spread over the data axis.
//
//     mpiexec -n 4 own_policy

#include <cstdio>
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/environment.hpp>
#include <kerkis/core/partition.hpp>
#include <kerkis/core/philox.hpp>
#include <kerkis/mesh/mesh.hpp>
#include <kerkis/policy/data_parallel.hpp>

namespace kk = kerkis;

struct MemberAxis {
  static constexpr std::string_view name = "member";  ///< in messages
  static constexpr int distance = 5;                  ///< ranks of this axis lie between tensor's (0) and data's (10)
};

/// Every rank of the axis is a member of the ensemble.
template <std::size_t N = kk::dynamic>
struct Ensemble {
  static_assert(N != 0, "Ensemble<0>: an axis needs at least one rank");
  using axis = MemberAxis;
  static constexpr std::size_t extent = N;
};
constexpr kk::AxisExtent<MemberAxis> members(std::size_t extent) { return {extent}; }  ///< for Mesh, if N is dynamic

using Plan = kk::Hybrid<Ensemble<>, kk::DataParallel<>>;

/// How many of the points `range` of a member lie in the quarter of the unit disc.
std::int64_t hits(int member, kk::Range range) {
  const kk::Random random(1, static_cast<std::uint32_t>(member));
  std::int64_t count = 0;
  for (auto i = static_cast<std::uint64_t>(range.begin); i < static_cast<std::uint64_t>(range.end); ++i) {
    const double x = random.uniform(2 * i), y = random.uniform(2 * i + 1);  // counted: the same wherever it is asked
    count += x * x + y * y < 1 ? 1 : 0;
  }
  return count;
}

void example() {
  constexpr std::int64_t points = 10'001;
  const Kokkos::DefaultHostExecutionSpace host;
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const kk::Mesh<Plan> mesh(MPI_COMM_WORLD, members(ranks % 2 == 0 ? 2 : 1));  // data: what remains
  const int member = mesh.coordinate<MemberAxis>(), all = mesh.extent<MemberAxis>();

  const Kokkos::View<std::int64_t*, Kokkos::HostSpace> mine("mine", 1), ensemble("ensemble", all);
  mine(0) = hits(member, kk::partition(points, mesh.extent<kk::axis::Data>(), mesh.coordinate<kk::axis::Data>()));
  kk::all_reduce(host, mesh.communicator<kk::axis::Data>(), mine).wait();
  kk::all_gather(host, mesh.communicator<MemberAxis>(), mine, ensemble).wait();

  for (int m = 0; m < all; ++m)
    if (ensemble(m) != hits(m, {0, points})) throw kk::Error(kk::message("member ", m, " has ", ensemble(m), " hits"));
  if (mesh.world().rank() > 0) return;
  std::printf("%s: pi is about", mesh.description().c_str());
  for (int m = 0; m < all; ++m) std::printf(" %.4f", 4 * static_cast<double>(ensemble(m)) / points);
  std::printf(", as on one rank\n");
}

int main(int argc, char** argv) { return kk::run(argc, argv, example); }
