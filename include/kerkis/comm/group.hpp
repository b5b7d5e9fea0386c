// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <kerkis/comm/failure_channel.hpp>

namespace kerkis::comm {

struct Pending;

/// An MPI communicator of the library's own, with a name for messages. It lives until the last handle and the last
/// operation on it are gone.
struct Group {
  /// `number` is the same on all its ranks. `fingerprints` is a duplicate for the checking mode, or MPI_COMM_NULL.
  Group(MPI_Comm handle, MPI_Comm fingerprints_handle, std::string words, int its_number,
        std::shared_ptr<const FailureChannel> channel)
      : native(handle), fingerprints(fingerprints_handle), name(std::move(words)), number(its_number),
        failures(std::move(channel)) {
    MPI_Comm_set_errhandler(native, MPI_ERRORS_RETURN);
    if (fingerprints != MPI_COMM_NULL) MPI_Comm_set_errhandler(fingerprints, MPI_ERRORS_RETURN);
    MPI_Comm_rank(native, &rank);
    MPI_Comm_size(native, &size);
    MPI_Group here = MPI_GROUP_NULL, all = MPI_GROUP_NULL;
    MPI_Comm_group(native, &here);
    MPI_Comm_group(failures->native(), &all);
    std::vector<int> members(static_cast<std::size_t>(size));
    std::iota(members.begin(), members.end(), 0);
    root_ranks.resize(members.size());
    MPI_Group_translate_ranks(here, size, members.data(), all, root_ranks.data());
    MPI_Group_free(&here);
    MPI_Group_free(&all);
  }
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() {
    if (!mpi_is_alive() || failures->failed()) return;
    // Collective by its name, but MPI libraries wait for nobody here.
    MPI_Comm_free(&native);
    if (fingerprints != MPI_COMM_NULL) MPI_Comm_free(&fingerprints);
  }

  /// "rank 5", in the root communicator, with its rank here if that is another.
  std::string who(int member) const {
    const int root_rank = root_ranks[static_cast<std::size_t>(member)];
    if (root_rank == member) return message("rank ", member);
    return message("rank ", root_rank, " (", member, " of '", name, "')");
  }

  MPI_Comm native, fingerprints;
  std::string name;
  int number;
  std::shared_ptr<const FailureChannel> failures;
  int rank = 0, size = 1;
  std::vector<int> root_ranks;    ///< by rank
  std::uint64_t sequence = 0;     ///< of the last collective
  std::uint64_t hand_offs = 0;    ///< of this rank
  std::vector<Pending*> waiting;  ///< collectives that have been called, but not yet started in MPI
  int several = 0;                ///< collectives under way that have more MPI operations to start
};

}  // namespace kerkis::comm
