// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <kerkis/comm/collective.hpp>

namespace kerkis::comm {

/// The elements of a View as one block per rank, one after the other in the order of ranks. Equal on all ranks, except
/// in all_to_all.
class Blocks {
 public:
  /// Blocks of `counts` elements or, if it is empty, of `each`. Throws InputError unless `counts` has a number per
  /// rank.
  Blocks(const char* operation, const Communicator& communicator, std::span<const std::size_t> counts, std::size_t each)
      : operation_(operation), ranks_(static_cast<std::size_t>(communicator.size())),
        rank_(static_cast<std::size_t>(communicator.rank())), each_(each) {
    if (counts.empty()) return;
    require(counts.size() == ranks_, operation, " over ", ranks_, " ranks: counts for ", counts.size());
    begins_.assign(1, 0);
    for (const std::size_t count : counts) begins_.push_back(begins_.back() + count);
  }

  /// The blocks of a View of `whole` elements. Throws InputError unless that is what `counts`, or equal blocks, make.
  static Blocks of(const char* operation, const Communicator& communicator, std::span<const std::size_t> counts,
                   std::size_t whole) {
    const auto ranks = static_cast<std::size_t>(communicator.size());
    require(!counts.empty() || whole % ranks == 0, operation, " over ", ranks, " ranks: ", whole,
            " elements do not make equal blocks");
    Blocks blocks(operation, communicator, counts, whole / ranks);
    blocks.check_whole(whole);
    return blocks;
  }

  /// Throw InputError unless a View of so many elements holds all blocks, or this rank's.
  void check_whole(std::size_t elements) const {
    require(elements == total(), operation_, " over ", ranks_, " ranks: the blocks have ", total(),
            " elements together, the View of all of them ", elements);
  }
  void check_mine(std::size_t elements) const {
    require(elements == size(rank_), operation_, " over ", ranks_, " ranks: the block of rank ", rank_, " has ",
            size(rank_), " elements, its View ", elements);
  }

  bool equal() const { return begins_.empty(); }
  std::size_t ranks() const { return ranks_; }
  std::size_t rank() const { return rank_; }
  std::size_t begin(std::size_t rank) const { return equal() ? rank * each_ : begins_[rank]; }
  std::size_t size(std::size_t rank) const { return begin(rank + 1) - begin(rank); }
  std::size_t total() const { return begin(ranks_); }

  /// Whether one MPI call with int counts can move them.
  bool fit(const Communicator& communicator) const {
    return total() <= communicator.state()->engine->options().largest_count;
  }

 private:
  const char* operation_;
  std::size_t ranks_, rank_, each_;
  std::vector<std::size_t> begins_;
};

/// Counts and displacements as MPI takes them; MPI reads them until the operation is complete.
class IntBlocks {
 public:
  explicit IntBlocks(const Blocks& blocks) : numbers_(2 * blocks.ranks()) {
    for (std::size_t rank = 0; rank < blocks.ranks(); ++rank) {
      numbers_[rank] = static_cast<int>(blocks.size(rank));
      numbers_[blocks.ranks() + rank] = static_cast<int>(blocks.begin(rank));
    }
  }
  const int* counts() const { return numbers_.data(); }
  const int* displacements() const { return numbers_.data() + numbers_.size() / 2; }

  void finish() {}

 private:
  std::vector<int> numbers_;
};

/// One side of MPI_Ialltoallw. A block whose count or place does not fit in an int is one element of a type of its own.
class TypedBlocks {
 public:
  /// No blocks, in `run`.
  TypedBlocks(const Communicator& communicator, const AnyRun& run)
      : longest_(communicator.state()->engine->options().largest_count), base_(run.data), size_(run.element),
        element_(run.type.native), numbers_(2 * static_cast<std::size_t>(communicator.size())),
        types_(numbers_.size() / 2, element_) {}

  /// The block for, or from, `rank`: `count` elements from the `begin`-th.
  void set(std::size_t rank, std::size_t begin, std::size_t count) {
    const std::size_t most = std::numeric_limits<int>::max() / size_;
    if (begin + count <= std::min(longest_, most)) {
      numbers_[rank] = static_cast<int>(count);
      numbers_[types_.size() + rank] = static_cast<int>(begin * size_);
    } else if (count > 0) {
      numbers_[rank] = 1;
      types_[rank] = long_type(begin, count);
    }
  }

  void* base() const { return base_; }
  const int* counts() const { return numbers_.data(); }
  const int* displacements() const { return numbers_.data() + types_.size(); }  ///< in bytes
  const MPI_Datatype* types() const { return types_.data(); }

  void finish() {
    for (MPI_Datatype& type : types_)
      if (type != element_) MPI_Type_free(&type);
  }

 private:
  MPI_Datatype long_type(std::size_t begin, std::size_t count) const {
    MPI_Datatype piece = MPI_DATATYPE_NULL, whole = MPI_DATATYPE_NULL;
    check(MPI_Type_contiguous(static_cast<int>(longest_), element_, &piece), "MPI_Type_contiguous");
    const std::size_t pieces = count / longest_;
    const int lengths[] = {static_cast<int>(pieces), static_cast<int>(count % longest_)};
    const MPI_Aint places[] = {static_cast<MPI_Aint>(begin * size_),
                               static_cast<MPI_Aint>((begin + pieces * longest_) * size_)};
    const MPI_Datatype parts[] = {piece, element_};
    check(MPI_Type_create_struct(2, lengths, places, parts, &whole), "MPI_Type_create_struct");
    check(MPI_Type_free(&piece), "MPI_Type_free");
    check(MPI_Type_commit(&whole), "MPI_Type_commit");
    return whole;
  }

  std::size_t longest_;
  void* base_;
  std::size_t size_;
  MPI_Datatype element_;
  std::vector<int> numbers_;
  std::vector<MPI_Datatype> types_;
};

/// Moves blocks of any size between all ranks. `in_place`: those of `receive` are sent as well, and replaced.
inline Request start_typed(const Communicator& communicator, const Operation& operation,
                           std::chrono::milliseconds deadline, bool in_place, TypedBlocks send, TypedBlocks receive,
                           std::unique_ptr<Steps> steps) {
  const auto begin = [from = in_place ? MPI_IN_PLACE : send.base(), to = receive.base(), sc = send.counts(),
                      sd = send.displacements(), st = send.types(), rc = receive.counts(), rd = receive.displacements(),
                      rt = receive.types(), native = communicator.native()](MPI_Request* request) {
    return MPI_Ialltoallw(from, sc, sd, st, to, rc, rd, rt, native, request);
  };
  return Request::start(communicator, operation, deadline,
                        with(std::move(send), with(std::move(receive), std::move(steps))), begin);
}

}  // namespace kerkis::comm
