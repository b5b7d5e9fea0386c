// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>
#include <optional>

#include <kerkis/comm/wait_policy.hpp>

namespace kerkis {

/// How a root communicator and all that are made from it work. Equal on all ranks; where a difference would cut
/// messages differently (`largest_count`, `device_aware`, `stage`), and for `check` and `strict_call_sites`, it is an
/// InputError on all of them.
/// See docs/contract.md for what they change.
struct CommunicatorOptions {
  WaitPolicy wait{};  ///< how ranks wait, and for how long
  /// Elements that one MPI call moves at most, at least 1; longer Views go in pieces. MPI-3 counts are ints, so more
  /// than the default is an InputError too.
  std::size_t largest_count = std::numeric_limits<int>::max();
  /// Whether the MPI library reads and writes device memory; unset: as MPI's query says (MPIX_GPU_query_support,
  /// or Open MPI's of CUDA and ROCm), if a trial with real data agrees; off if there is none. Device memory goes
  /// through host memory otherwise.
  std::optional<bool> device_aware{};
  bool stage = false;  ///< all memory goes through buffers, as device memory does: for tests

  /// Checking mode: before a collective starts, the ranks compare operation, reduction and its order, element type,
  /// count, the counts of blocks, root and order of elements, and what each sends to each with what that one receives
  /// in an all_to_all with counts; if they differ, every rank throws what two of them have entered, and where. A View
  /// that is written while an operation reads it is an error, two threads in calls at the same time are an InputError
  /// of the second, and MPI_Finalize lists on stderr what was never finished, unless a failure has stopped it. What
  /// can't be seen: the element types of hand-offs, a buffer that the program frees or writes while an operation writes
  /// it, and unmanaged Views that are freed (managed ones are kept alive). Operations move on in calls of the library
  /// only, on any root communicator in checking mode, so a program may not wait in MPI calls of its own for what a
  /// pending collective is to bring. The environment variable KERKIS_CHECK of rank 0, 1 or strict, turns it on too.
  bool check = false;
  /// Checking mode that also wants every collective called at the same place of the program on all ranks.
  bool strict_call_sites = false;

  /// A thread on each rank that tells the ranks of other hosts, over a TCP socket of its own, what the ranks of this
  /// host do, for the reports of deadlines. It never calls MPI. Without it the state of other hosts' ranks is unknown.
  bool watch = false;
};

}  // namespace kerkis
