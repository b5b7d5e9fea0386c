// SPDX-License-Identifier: Apache-2.0
// The commonest fault of a parallel program, caught: two ranks enter different collectives. Without checks this may
// hang, or mix up data; in checking mode every rank is told what two of them have entered, and where. Any program is
// checked when it is run with KERKIS_CHECK=1 in its environment.
//
//     mpiexec -n 2 mismatch

#include <cstdio>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/environment.hpp>
#include <string>

namespace kk = kerkis;

void example() {
  const kk::Communicator world(MPI_COMM_WORLD, "world", {.check = true});
  const Kokkos::DefaultHostExecutionSpace host;
  const Kokkos::View<float*, Kokkos::HostSpace> values("values", 4);
  std::string text;
  try {
    if (world.rank() == 0)
      kk::broadcast(host, world, values).wait();
    else
      kk::all_reduce(host, world, values).wait();  // one `if` too many
  } catch (const kk::CommError& error) {
    text = error.what();
  }
  if (world.size() == 1) {
    std::printf("one rank agrees with itself: run this on two or more\n");
    return;
  }
  if (text.find("rank 0 entered broadcast of 4 float from root 0 at mismatch.cpp:23, "
                "rank 1 entered all_reduce (sum) of 4 float at mismatch.cpp:25") == std::string::npos)
    throw kk::Error("the mismatch was not explained: " + text);
  // The communicator is poisoned: nothing can be sent over it any more. A program would let the error end it.
  if (world.rank() == 0) std::printf("caught on every rank: %s\n", text.c_str());
}

int main(int argc, char** argv) { return kk::run(argc, argv, example); }
