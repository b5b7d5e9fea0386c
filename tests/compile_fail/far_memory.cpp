// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: communication takes Views in memory that the host, or the execution space given, can reach
#include <kerkis/comm/wire.hpp>

/// Memory that the host cannot reach, as a GPU has.
struct FarSpace {
  using memory_space = FarSpace;
  using execution_space = Kokkos::DefaultHostExecutionSpace;
  using device_type = Kokkos::Device<execution_space, memory_space>;
  using size_type = std::size_t;
  static constexpr const char* name() { return "far"; }
};
#if KERKIS_MISTAKE == 1
using Space = FarSpace;
#else
using Space = Kokkos::HostSpace;
#endif

using View = Kokkos::View<float*, Space, Kokkos::MemoryUnmanaged>;
using Wire = kerkis::comm::Wire<kerkis::comm::Access::read, Kokkos::DefaultHostExecutionSpace, View>;
constexpr std::size_t size = sizeof(Wire);
