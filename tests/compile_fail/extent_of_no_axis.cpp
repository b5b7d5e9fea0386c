// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: an extent is given for an axis that the plan does not have
// EXPECT 2: an extent is given for an axis whose extent the plan fixes
// EXPECT 3: the extent of an axis is given twice
#include <kerkis/mesh/mesh.hpp>
#include <kerkis/policy/data_parallel.hpp>
#include <kerkis/policy/tensor_parallel.hpp>

using Plan = kerkis::Hybrid<kerkis::DataParallel<>, kerkis::TensorParallel<2>>;

void meshes(MPI_Comm world) {
#if KERKIS_MISTAKE == 1
  kerkis::Mesh<Plan>(world, kerkis::pipeline(2));
#elif KERKIS_MISTAKE == 2
  kerkis::Mesh<Plan>(world, kerkis::tensor(2));
#elif KERKIS_MISTAKE == 3
  kerkis::Mesh<Plan>(world, kerkis::data(2), kerkis::data(4));
#else
  kerkis::Mesh<Plan>(world, kerkis::data(2));
#endif
}
