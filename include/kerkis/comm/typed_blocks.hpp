// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include <kerkis/comm/collective.hpp>

namespace kerkis::comm {

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

  /// Blocks by their addresses, so that the base is another than that of what lies in the same memory: MPI libraries
  /// may take two equal bases for MPI_IN_PLACE.
  void use_addresses() {
    const bool any = std::any_of(numbers_.begin(), numbers_.begin() + static_cast<std::ptrdiff_t>(types_.size()),
                                 [](int count) { return count > 0; });
    for (std::size_t rank = 0; rank < types_.size(); ++rank) {
      int& count = numbers_[rank];
      int& place = numbers_[types_.size() + rank];
      if (count == 0) continue;
      MPI_Aint address = 0;
      check(MPI_Get_address(static_cast<std::byte*>(base_) + std::exchange(place, 0), &address), "MPI_Get_address");
      MPI_Datatype made = MPI_DATATYPE_NULL;
      check(MPI_Type_create_hindexed(1, &count, &address, types_[rank], &made), "MPI_Type_create_hindexed");
      check(MPI_Type_commit(&made), "MPI_Type_commit");
      if (types_[rank] != element_) MPI_Type_free(&types_[rank]);
      types_[rank] = made;
      count = 1;
    }
    base_ = any ? MPI_BOTTOM : numbers_.data();
  }

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
  if (!in_place && send.base() == receive.base()) send.use_addresses();
  const auto begin = [from = in_place ? MPI_IN_PLACE : send.base(), to = receive.base(), sc = send.counts(),
                      sd = send.displacements(), st = send.types(), rc = receive.counts(), rd = receive.displacements(),
                      rt = receive.types(), native = communicator.native()](MPI_Request* request) {
    return MPI_Ialltoallw(from, sc, sd, st, to, rc, rd, rt, native, request);
  };
  return Request::start(communicator, operation, deadline,
                        with(std::move(send), with(std::move(receive), std::move(steps))), begin);
}

}  // namespace kerkis::comm
