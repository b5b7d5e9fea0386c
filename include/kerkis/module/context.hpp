// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include <kerkis/comm/communicator.hpp>
#include <kerkis/module/workspace.hpp>

namespace kerkis {

/// What a forward pass is for.
enum class Mode {
  training,   ///< dropout acts
  evaluation  ///< dropout is the identity
};

/// What a layer may know about the call that it serves.
template <class ExecutionSpace = Kokkos::DefaultExecutionSpace>
struct Context {
  ExecutionSpace execution;              ///< every kernel runs on this instance
  Workspace<ExecutionSpace>& workspace;  ///< scratch for the time of a call
  const Communicator& communicator;      ///< whose progress `poll` drives
  std::uint64_t seed = 0;                ///< of the whole run
  std::uint32_t step = 0;                ///< of the optimizer, from 0
  int microbatch = 0;                    ///< within the step and the data replica
  std::int64_t first_sample = 0;         ///< global index, within the step, of the microbatch's first sequence
  Mode mode = Mode::training;            ///< of the pass

  /// Moves pending communication on; call it between kernels. Throws what another rank has reported.
  void poll() const { communicator.poll(); }
};

}  // namespace kerkis
