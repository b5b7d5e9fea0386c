// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <kerkis/testing/any_rank.hpp>
#include <mpi.h>

#include <Kokkos_Core.hpp>

#include <chrono>
#include <stdexcept>
#include <thread>

namespace {

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

TEST_CASE("MPI and Kokkos run") {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(ranks >= 1);
  CHECK(Kokkos::is_initialized());
}

TEST_CASE("any_rank hears the last rank") {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(kerkis::testing::any_rank(MPI_COMM_WORLD, world_rank() == ranks - 1));
  CHECK_FALSE(kerkis::testing::any_rank(MPI_COMM_WORLD, false));
}

// The cases below fail on purpose; CTest runs them by name and looks at what the program says.
TEST_CASE("fails on the last rank" * doctest::skip()) { CHECK(world_rank() != 1); }

TEST_CASE("throws on the last rank" * doctest::skip()) {
  if (world_rank() == 1) throw std::runtime_error("thrown on purpose");
}

TEST_CASE("hangs on the last rank" * doctest::skip()) {
  while (world_rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

}  // namespace
