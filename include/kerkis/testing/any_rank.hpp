// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>

#include <kerkis/comm/mpi.hpp>

namespace kerkis::testing {

/// True on all ranks if true on any; collective. Waits without occupying a core: ranks that share one must come to an
/// end first.
inline bool any_rank(MPI_Comm communicator, bool value) {
  const int mine = value ? 1 : 0;
  int all = 0;
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_Iallreduce(&mine, &all, 1, MPI_INT, MPI_MAX, communicator, &request);
  comm::completes_within(request, std::chrono::hours(1));  // the watchdog is faster
  return all != 0;
}

}  // namespace kerkis::testing
