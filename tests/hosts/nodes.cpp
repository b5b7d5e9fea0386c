// SPDX-License-Identifier: Apache-2.0
// Whether MPI sees the hosts as hosts: nodes RANKS_PER_HOST. Each group of ranks with shared memory has that many, all
// of one name, and no other rank has that name.
#include <mpi.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm node = MPI_COMM_NULL;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  int node_size = 0;
  MPI_Comm_size(node, &node_size);

  using Name = std::array<char, MPI_MAX_PROCESSOR_NAME>;
  Name name{};
  int length = 0;
  MPI_Get_processor_name(name.data(), &length);
  std::vector<Name> names(static_cast<std::size_t>(size));
  MPI_Allgather(name.data(), MPI_MAX_PROCESSOR_NAME, MPI_CHAR, names.data(), MPI_MAX_PROCESSOR_NAME, MPI_CHAR,
                MPI_COMM_WORLD);
  int same = 0;
  for (const Name& other : names) same += std::strcmp(other.data(), name.data()) == 0 ? 1 : 0;

  const int expected = argc > 1 ? std::atoi(argv[1]) : 1;
  int good = node_size == expected && same == expected ? 1 : 0;
  std::printf("rank %d on %s: %d ranks share memory, %d have this name\n", rank, name.data(), node_size, same);
  MPI_Allreduce(MPI_IN_PLACE, &good, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  MPI_Comm_free(&node);
  MPI_Finalize();
  return good != 0 ? 0 : 1;
}
