// SPDX-License-Identifier: Apache-2.0
#include <kerkis/kerkis.hpp>
#include <kerkis_every_comm.hpp>

int other_ranks(MPI_Comm communicator);
const void* other_address();

int main(int argc, char** argv) {
  return kerkis::run(argc, argv, [] {
    const kerkis::Mesh<kerkis::DataParallel<>> mesh(MPI_COMM_WORLD);
    kerkis::require(mesh.extent<kerkis::axis::Data>() == other_ranks(MPI_COMM_WORLD), "two translation units disagree");
    kerkis::require(other_address() == &kerkis::version, "each translation unit has a constant of its own");
  });
}
