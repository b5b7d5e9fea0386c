// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/mesh/mesh.hpp>
#include <kerkis/policy/data_parallel.hpp>
#include <kerkis/policy/pipeline.hpp>
#include <kerkis/policy/tensor_parallel.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace {

using namespace kerkis;
using Open = Hybrid<DataParallel<>, TensorParallel<>, Pipeline<>>;

std::size_t world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return static_cast<std::size_t>(size);
}

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

/// The ranks of the world in a group, in its order.
std::vector<int> members(const Communicator& group) {
  const Kokkos::View<int*, Kokkos::HostSpace> mine("mine", 1), all("all", static_cast<std::size_t>(group.size()));
  mine(0) = world_rank();
  all_gather(Kokkos::DefaultHostExecutionSpace(), group, mine, all).wait();
  return {all.data(), all.data() + all.size()};
}

/// The ranks that differ from this one in one digit: every `stride`, `extent` of them.
std::vector<int> line(int stride, int extent) {
  const int first = world_rank() - world_rank() / stride % extent * stride;
  std::vector<int> ranks;
  for (int i = 0; i < extent; ++i) ranks.push_back(first + i * stride);
  return ranks;
}

template <class Axis, class M>
void check_axis(const M& mesh, int stride, int extent) {
  CAPTURE(Axis::name);
  CHECK(mesh.template extent<Axis>() == extent);
  CHECK(mesh.template coordinate<Axis>() == world_rank() / stride % extent);
  const Communicator& group = mesh.template communicator<Axis>();
  CHECK(group.size() == extent);
  CHECK(group.rank() == mesh.template coordinate<Axis>());
  CHECK(members(group) == line(stride, extent));
  CHECK(std::string(group.name()) == (extent == 1 ? "self" : Axis::name));
}

TEST_CASE("tensor neighbours are closest, then data, then pipeline, for every way to make a grid of the ranks") {
  const auto n = static_cast<int>(world_size());
  for (int t = 1; t <= n; ++t) {
    for (int d = 1; d * t <= n; ++d) {
      if (n % (d * t) != 0) continue;
      const int p = n / (d * t);
      CAPTURE(t);
      CAPTURE(d);
      const Mesh<Open> mesh(MPI_COMM_WORLD, pipeline(static_cast<std::size_t>(p)), tensor(static_cast<std::size_t>(t)));
      check_axis<axis::Tensor>(mesh, 1, t);
      check_axis<axis::Data>(mesh, t, d);
      check_axis<axis::Pipeline>(mesh, t * d, p);
      CHECK(mesh.world().size() == n);
      CHECK(mesh.description() == message("pipeline ", p, " × data ", d, " × tensor ", t));
    }
  }
}

TEST_CASE("a placement puts other axes closest") {
  const auto n = static_cast<int>(world_size());
  const int p = n % 2 == 0 ? 2 : 1;
  const auto stages = pipeline(static_cast<std::size_t>(p));
  const Mesh<Open, Placement<axis::Pipeline, axis::Data>> mesh(MPI_COMM_WORLD, stages, tensor(1));
  check_axis<axis::Pipeline>(mesh, 1, p);
  check_axis<axis::Data>(mesh, p, n / p);
  check_axis<axis::Tensor>(mesh, n, 1);
  CHECK(mesh.description() == message("tensor 1 × data ", n / p, " × pipeline ", p));

  const Mesh<Open, Placement<axis::Pipeline>> rest(MPI_COMM_WORLD, stages, data(1));  // the others follow by distance
  check_axis<axis::Pipeline>(rest, 1, p);
  check_axis<axis::Tensor>(rest, p, n / p);
}

TEST_CASE("static extents, and axes that the plan does not have") {
  if (world_size() % 2 != 0) return;
  const Mesh<Hybrid<TensorParallel<2>, DataParallel<>>> mesh(MPI_COMM_WORLD);
  check_axis<axis::Tensor>(mesh, 1, 2);
  check_axis<axis::Data>(mesh, 2, static_cast<int>(world_size() / 2));
  check_axis<axis::Pipeline>(mesh, 1, 1);
}

TEST_CASE("a plan of static extents: 2 × 2 × 2") {
  if (world_size() != 8) return;
  const Mesh<Hybrid<DataParallel<2>, TensorParallel<2>, Pipeline<2>>> mesh(MPI_COMM_WORLD);
  check_axis<axis::Tensor>(mesh, 1, 2);
  check_axis<axis::Data>(mesh, 2, 2);
  check_axis<axis::Pipeline>(mesh, 4, 2);
}

TEST_CASE("all communicators of a mesh have its options") {
  const auto n = static_cast<int>(world_size());
  if (n == 1) return;
  const int t = n % 2 == 0 ? 2 : n;
  using namespace std::chrono_literals;
  const Mesh<Open> mesh(MPI_COMM_WORLD, {.wait = {.first_report = 7s, .deadline = 11s}, .check = true},
                        tensor(static_cast<std::size_t>(t)), pipeline(1));
  check_axis<axis::Tensor>(mesh, 1, t);
  check_axis<axis::Data>(mesh, t, n / t);
  for (const Communicator& one : {mesh.world(), mesh.communicator<axis::Tensor>()}) {
    CHECK(one.options().wait.first_report == 7s);
    CHECK(one.options().wait.deadline == 11s);
    CHECK(one.options().check);
  }
  const Mesh<DataParallel<>> data(MPI_COMM_WORLD, {.largest_count = 5});
  CHECK(data.communicator<axis::Data>().options().largest_count == 5);
  CHECK(Mesh<DataParallel<>>(MPI_COMM_WORLD).world().options().largest_count == CommunicatorOptions().largest_count);
}

TEST_CASE("a mesh over MPI_COMM_NULL is refused") {
  CHECK_THROWS_WITH_AS((Mesh<DataParallel<>>(MPI_COMM_NULL)), "a Mesh over MPI_COMM_NULL: this rank is in none",
                       InputError);
}

TEST_CASE("one rank needs no communicator, and no MPI") {
  const Mesh<Serial> serial;
  CHECK(serial.description() == "serial");
  CHECK(serial.world().size() == 1);
  const Mesh<Open> open(MPI_COMM_SELF, tensor(1), pipeline(1));
  CHECK(open.extent<axis::Data>() == 1);
  CHECK(open.world().size() == 1);
  const Mesh<DataParallel<>> data;
  CHECK(data.extent<axis::Data>() == 1);
  CHECK(data.coordinate<axis::Data>() == 0);
  CHECK_THROWS_WITH_AS(Mesh<DataParallel<2>>(), "the plan data 2 needs 2 ranks, the communicator has 1", InputError);
}

TEST_CASE("a world that the plan does not fit is refused, with the numbers, on every rank") {
  const std::size_t n = world_size();
  CHECK_THROWS_WITH_AS((Mesh<Hybrid<DataParallel<5>, TensorParallel<2>>>(MPI_COMM_WORLD)),
                       message("the plan data 5 × tensor 2 needs 10 ranks, the communicator has ", n).c_str(),
                       InputError);
  CHECK_THROWS_WITH_AS(
      (Mesh<Hybrid<DataParallel<>, TensorParallel<7>>>(MPI_COMM_WORLD)),
      message("the plan data × tensor 7 does not fit ", n, " ranks: their number must be a multiple of 7").c_str(),
      InputError);
  CHECK_THROWS_WITH_AS(Mesh<Open>(MPI_COMM_WORLD, tensor(n), data(n), pipeline(2)),
                       message("the plan pipeline 2 × data ", n, " × tensor ", n, " needs ", 2 * n * n,
                               " ranks, the communicator has ", n)
                           .c_str(),
                       InputError);
  if (n > 1) CHECK_THROWS_AS(Mesh<Serial>{MPI_COMM_WORLD}, InputError);
  CHECK_THROWS_WITH_AS(Mesh<Open>(MPI_COMM_WORLD, tensor(1)),
                       "the plan pipeline × data × tensor 1 leaves more than one extent open: give all but one by name",
                       InputError);
  CHECK_THROWS_WITH_AS(Mesh<Open>(MPI_COMM_WORLD, tensor(0), data(1)), "the extent of the tensor axis is 0",
                       InputError);
}

TEST_CASE("extents whose product does not fit a number are refused too") {
  const std::size_t huge = std::size_t{1} << 32;
  CHECK_THROWS_AS(Mesh<Open>(MPI_COMM_WORLD, tensor(huge), pipeline(huge)), InputError);
  CHECK_THROWS_AS(Mesh<Open>(MPI_COMM_WORLD, tensor(huge), pipeline(huge), data(huge)), InputError);
}

// ---- an axis and a policy of a user's own, between tensor and data
struct Sequence {
  static constexpr std::string_view name = "sequence";
  static constexpr int distance = 5;
};
template <std::size_t N = dynamic>
struct SequenceParallel {
  using axis = Sequence;
  static constexpr std::size_t extent = N;
};

TEST_CASE("an axis of a user's own") {
  const auto n = static_cast<int>(world_size());
  const int t = n % 2 == 0 ? 2 : 1;
  const Mesh<Hybrid<DataParallel<>, TensorParallel<>, SequenceParallel<>>> mesh(
      MPI_COMM_WORLD, tensor(static_cast<std::size_t>(t)), data(1));
  check_axis<axis::Tensor>(mesh, 1, t);
  check_axis<Sequence>(mesh, t, n / t);
  CHECK(mesh.description() == message("data 1 × sequence ", n / t, " × tensor ", t));
  const Mesh<SequenceParallel<>> given(MPI_COMM_WORLD, AxisExtent<Sequence>{world_size()});
  check_axis<Sequence>(given, 1, n);
}

}  // namespace
