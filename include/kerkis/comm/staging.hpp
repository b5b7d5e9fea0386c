// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>
#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>  // where Open MPI declares its queries
#endif

#include <Kokkos_Core.hpp>
#include <array>
#include <chrono>
#include <cstddef>
#include <limits>

#include <kerkis/comm/communicator.hpp>
#include <kerkis/comm/pack.hpp>

namespace kerkis::comm {

/// Host memory for buffers that an execution space fills.
#ifdef KOKKOS_HAS_SHARED_HOST_PINNED_SPACE
using PinnedSpace = Kokkos::SharedHostPinnedSpace;
#else
using PinnedSpace = Kokkos::HostSpace;
#endif

template <class ExecutionSpace>
using StagingSpace = std::conditional_t<runs_on_host<ExecutionSpace>, Kokkos::HostSpace, PinnedSpace>;

/// Buffers in a memory space of Kokkos. What outlives Kokkos has been freed by it.
template <class Space>
const BufferSpace& buffers_of() {
  if constexpr (std::is_same_v<Space, Kokkos::HostSpace>) {
    return host_buffers();
  } else {
    static constexpr BufferSpace space{
        [](std::size_t bytes) { return Kokkos::kokkos_malloc<Space>("kerkis::buffer", bytes); },
        [](void* data) {
          if (Kokkos::is_initialized()) Kokkos::kokkos_free<Space>(data);
        }};
    return space;
  }
}

inline Resources* resources(const Communicator& communicator, const char* operation = "the start of an operation") {
  return communicator.state() ? &communicator.state()->engine->resources(operation) : nullptr;
}

/// Sends a few numbers from memory of `MemorySpace` to itself: whether they come back as they went, within a second.
/// Local to this rank.
template <class MemorySpace, class ExecutionSpace>
bool moves_data(const ExecutionSpace& execution) {
  constexpr int count = 1000;
  using Words = Kokkos::View<int*, MemorySpace>;
  const Words from("kerkis::moves_data", count), to("kerkis::moves_data", count);
  const auto words = Kokkos::create_mirror_view(Kokkos::WithoutInitializing, from);
  for (int i = 0; i < count; ++i) words(i) = i + 1;
  Kokkos::deep_copy(execution, from, words);
  execution.fence("kerkis::moves_data");
  MPI_Comm self = MPI_COMM_NULL;
  check(MPI_Comm_dup(MPI_COMM_SELF, &self), "MPI_Comm_dup");
  MPI_Comm_set_errhandler(self, MPI_ERRORS_RETURN);
  std::array<MPI_Request, 2> requests{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  bool moved = MPI_Irecv(to.data(), count, MPI_INT, 0, 0, self, &requests[0]) == MPI_SUCCESS &&
               MPI_Isend(from.data(), count, MPI_INT, 0, 0, self, &requests[1]) == MPI_SUCCESS;
  try {
    for (MPI_Request& request : requests) moved = moved && completes_within(request, std::chrono::seconds(1));
  } catch (const CommError&) {
    moved = false;
  }
  if (!moved) {  // MPI may still write to it
    leak(from);
    leak(to);
    return false;
  }
  MPI_Comm_free(&self);
  Kokkos::deep_copy(execution, words, to);
  execution.fence("kerkis::moves_data");
  for (int i = 0; i < count; ++i) moved = moved && words(i) == i + 1;
  return moved;
}

/// Whether MPI says that it takes memory of the device for which Kokkos was built.
inline bool mpi_takes_device_memory() {
  int supported = 0;
#if defined(MPIX_GPU_SUPPORT_CUDA) && defined(KOKKOS_ENABLE_CUDA)
  if (MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &supported) != MPI_SUCCESS) supported = 0;
#elif defined(MPIX_GPU_SUPPORT_HIP) && defined(KOKKOS_ENABLE_HIP)
  if (MPIX_GPU_query_support(MPIX_GPU_SUPPORT_HIP, &supported) != MPI_SUCCESS) supported = 0;
#elif defined(MPIX_GPU_SUPPORT_ZE) && defined(KOKKOS_ENABLE_SYCL)
  if (MPIX_GPU_query_support(MPIX_GPU_SUPPORT_ZE, &supported) != MPI_SUCCESS) supported = 0;
#elif defined(MPIX_CUDA_AWARE_SUPPORT) && defined(KOKKOS_ENABLE_CUDA)
  supported = MPIX_Query_cuda_support();
#elif defined(MPIX_ROCM_AWARE_SUPPORT) && defined(KOKKOS_ENABLE_HIP)
  supported = MPIX_Query_rocm_support();
#endif
  return supported != 0;
}

/// Whether MPI may be given memory of `MemorySpace`, which the host cannot reach.
template <class MemorySpace, class ExecutionSpace>
bool device_aware(const ExecutionSpace& execution, const Communicator& communicator) {
  if (!communicator.state()) return false;
  auto& engine = *communicator.state()->engine;
  if (engine.options().device_aware) return *engine.options().device_aware;
  std::optional<bool>& found = resources(communicator)->device_aware;
  if (!found) found = mpi_takes_device_memory() && moves_data<MemorySpace>(execution);
  return *found;
}

/// Bytes that go through a staging buffer at a time.
inline constexpr std::size_t staged_bytes = std::size_t{4} << 20;

/// Elements from which a hand-off goes in pieces of so many: the same on both sides, whatever the memory of their
/// Views.
inline std::size_t piece_length(const Communicator& communicator, std::size_t element_bytes) {
  const CommunicatorOptions& options = communicator.state()->engine->options();
  std::size_t length =
      std::min<std::size_t>(options.largest_count, static_cast<std::size_t>(std::numeric_limits<int>::max()));
  constexpr bool has_device = !runs_on_host<Kokkos::DefaultExecutionSpace>;
  if (options.stage || (has_device && !options.device_aware.value_or(false)))
    length = std::min(length, staged_bytes / element_bytes);
  return std::max<std::size_t>(length, 1);
}

}  // namespace kerkis::comm
