// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <source_location>

#include <kerkis/comm/request.hpp>

namespace kerkis {

/// Of `barrier`. What holds for every operation (buffers, order, progress, failure) is in docs/contract.md.
struct BarrierOptions {
  std::chrono::milliseconds deadline{0};  ///< 0: the communicator's
};

/// Completes when every rank has called it. Throws CommError if MPI fails.
inline Request barrier(const Communicator& communicator, BarrierOptions options = {},
                       std::source_location where = std::source_location::current()) {
  if (comm::alone({"barrier", where}, communicator, options.deadline)) return {};
  return Request::start(
      communicator, {.name = "barrier", .where = where}, options.deadline, nullptr,
      [native = communicator.native()](MPI_Request* request) { return MPI_Ibarrier(native, request); });
}

}  // namespace kerkis
