// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <kerkis/comm/board.hpp>
#include <kerkis/comm/failure_channel.hpp>

namespace kerkis::comm {

struct Pending;

/// An MPI communicator of the library's own, with a name for messages. It lives until the last handle and the last
/// operation on it are gone.
struct Group {
  /// `number` is the same on all its ranks. `fingerprints` is a duplicate for the checking mode, or MPI_COMM_NULL.
  /// `board` outlives it, unless a failure comes first.
  Group(MPI_Comm handle, MPI_Comm fingerprints_handle, std::string words, int its_number,
        std::shared_ptr<FailureChannel> channel, Board& its_board)
      : native(handle), fingerprints(fingerprints_handle), name(std::move(words)), number(its_number),
        failures(std::move(channel)), board(its_board) {
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
    board.leave(number);
    if (!report_unreceived()) free_native();
    if (fingerprints != MPI_COMM_NULL) MPI_Comm_free(&fingerprints);
  }

  /// "rank 5", in the root communicator, with its rank here if that is another.
  std::string who(int member) const;

  MPI_Comm native, fingerprints;
  std::string name;
  int number;
  std::shared_ptr<FailureChannel> failures;
  int rank = 0, size = 1;
  std::vector<int> root_ranks;    ///< by rank
  std::uint64_t sequence = 0;     ///< of the last collective
  std::uint64_t hand_offs = 0;    ///< of this rank
  std::vector<Pending*> waiting;  ///< collectives that have been called, but not yet started in MPI
  int several = 0;                ///< collectives under way that have more MPI operations to start
  Board& board;

 private:
  /// At the end: says whether a message has come that nobody has received, and if so which.
  bool report_unreceived() const noexcept;
  void free_native() noexcept;
  void report(const std::string& text) const noexcept;
};

/// A member of `group` (null: of the root communicator) as a rank of the root communicator.
inline int root_rank(const Group* group, int member) {
  return group != nullptr ? group->root_ranks[static_cast<std::size_t>(member)] : member;
}

/// "2, 3 and 5"
inline std::string number_list(const std::vector<int>& numbers) {
  constexpr std::size_t most = 16;
  std::string text;
  for (std::size_t i = 0; i < std::min(numbers.size(), most); ++i)
    text += message(i == 0 ? "" : i + 1 == numbers.size() ? " and " : ", ", numbers[i]);
  return numbers.size() > most ? text + message(" and ", numbers.size() - most, " more") : text;
}

/// "ranks 2 and 3": members of `group` (null: of the root communicator) as ranks of the root communicator; where those
/// are others, as both: "ranks 2 and 3 (0 and 1 of 'data')".
inline std::string rank_list(const Group* group, const std::vector<int>& members) {
  std::vector<int> ranks = members;
  for (int& rank : ranks) rank = root_rank(group, rank);
  const std::string text = message(members.size() == 1 ? "rank " : "ranks ", number_list(ranks));
  return ranks == members ? text : message(text, " (", number_list(members), " of '", group->name, "')");
}

inline std::string Group::who(int member) const { return rank_list(this, {member}); }

inline bool Group::report_unreceived() const noexcept {
  int there = 0, bytes = 0;
  MPI_Status status;
  for (int probes = 0; probes < 10 && there == 0; ++probes)  // each takes in some of what has come
    if (MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, native, &there, &status) != MPI_SUCCESS) return false;
  if (there == 0) return false;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  const auto size_text = bytes == MPI_UNDEFINED ? std::string("a message") : message("a message of ", bytes, " bytes");
  report(message(size_text, " from ", who(status.MPI_SOURCE), " with tag ", status.MPI_TAG,
                 " has come that nobody has received"));
  return true;
}

// Collective by its name, but MPI libraries wait for nobody here: a message may have come since it was looked for.
// MPICH ends the job for that, unless errors that belong to no communicator are returned.
inline void Group::free_native() noexcept {
  const ErrorsReturned here(MPI_COMM_SELF);
  if (const int code = MPI_Comm_free(&native); code != MPI_SUCCESS) report(mpi_text(code, "MPI_Comm_free"));
}

inline void Group::report(const std::string& text) const noexcept {
  report_unheard(message("communicator '", name, "' was ended on ", who(rank)).c_str(), CommError(text));
}

}  // namespace kerkis::comm
