// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>
#include <sched.h>

namespace kerkis::testing {

/// True on all ranks if true on any; collective. Waits without occupying a core: ranks that share one must come to an
/// end first.
inline bool any_rank(MPI_Comm communicator, bool value) {
  const int mine = value ? 1 : 0;
  int all = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_MAX, communicator, &request);
  for (int done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done;) sched_yield();
  return all != 0;
}

}  // namespace kerkis::testing
