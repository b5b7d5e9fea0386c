// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <kerkis/comm/failure_channel.hpp>

namespace kerkis::comm {

/// An MPI communicator of the library's own, with a name for messages. It lives until the last handle and the last
/// operation on it are gone.
struct Group {
  Group(MPI_Comm handle, std::string words, std::shared_ptr<const FailureChannel> channel)
      : native(handle), name(std::move(words)), failures(std::move(channel)) {
    MPI_Comm_set_errhandler(native, MPI_ERRORS_RETURN);
    MPI_Comm_rank(native, &rank);
    MPI_Comm_size(native, &size);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    if (mpi_is_alive() && !failures->failed()) MPI_Comm_free(&native);
  }

  MPI_Comm native;
  std::string name;
  std::shared_ptr<const FailureChannel> failures;
  int rank = 0, size = 1;
  std::uint64_t sequence = 0;  ///< of the last operation
};

}  // namespace kerkis::comm
