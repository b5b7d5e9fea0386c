// SPDX-License-Identifier: Apache-2.0
// A second translation unit with the same headers, in another order: nothing in them may be defined twice.
#include <kerkis_every_comm.hpp>

#include <kerkis/kerkis.hpp>

int other_ranks(MPI_Comm communicator) {
  const kerkis::Mesh<kerkis::Hybrid<kerkis::DataParallel<>, kerkis::TensorParallel<1>>> mesh(communicator);
  return mesh.extent<kerkis::axis::Data>() * mesh.extent<kerkis::axis::Tensor>();
}

const void* other_address() { return &kerkis::version; }
