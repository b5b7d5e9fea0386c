// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <source_location>
#include <utility>

#include <kerkis/comm/blocks.hpp>
#include <kerkis/comm/typed_blocks.hpp>

namespace kerkis::comm {

/// Starts a gather or a scatter. `mine`: this rank's block, unless in place on the root; `all`: all blocks, on the
/// root.
inline Request start_root_blocks(const Communicator& communicator, bool gathers, const Blocks& blocks, bool in_place,
                                 const AnyRun& mine, const AnyRun& all, int root, std::chrono::milliseconds deadline,
                                 const std::source_location& where, std::unique_ptr<Steps> steps) {
  const auto type = mine.type;
  const Operation words{.name = gathers ? "gather" : "scatter",
                        .type = type.name,
                        .order = type.order,
                        .count = blocks.total(),
                        .root = root,
                        .begins = blocks.begins(),
                        .where = where};
  const std::size_t rank = blocks.rank(), root_rank = static_cast<std::size_t>(root);
  in_place = in_place && rank == root_rank;
  if (!blocks.fit(communicator)) {
    AnyRun everything = all;
    everything.type = type;  // also where there is nothing: some MPI libraries look at the types of empty blocks
    TypedBlocks block(communicator, mine), whole(communicator, everything);
    if (!in_place) block.set(root_rank, 0, blocks.size(rank));
    for (std::size_t other = 0; rank == root_rank && other < blocks.ranks(); ++other)
      if (!in_place || other != rank) whole.set(other, blocks.begin(other), blocks.size(other));
    if (!gathers) std::swap(block, whole);
    return start_typed(communicator, words, deadline, false, std::move(block), std::move(whole), std::move(steps));
  }
  void* const block = in_place ? MPI_IN_PLACE : mine.data;
  void* const whole = all.data;
  const auto native = communicator.native();
  const int count = static_cast<int>(blocks.size(rank));
  if (blocks.equal())
    return Request::start(communicator, words, deadline, std::move(steps),
                          [gathers, block, count, whole, type = type.native, root, native](MPI_Request* request) {
                            return gathers
                                       ? MPI_Igather(block, count, type, whole, count, type, root, native, request)
                                       : MPI_Iscatter(whole, count, type, block, count, type, root, native, request);
                          });
  IntBlocks ints(blocks);
  const int *const counts = ints.counts(), *const begins = ints.displacements();
  return Request::start(
      communicator, words, deadline, with(std::move(ints), std::move(steps)),
      [gathers, block, count, whole, counts, begins, type = type.native, root, native](MPI_Request* request) {
        return gathers ? MPI_Igatherv(block, count, type, whole, counts, begins, type, root, native, request)
                       : MPI_Iscatterv(whole, counts, begins, type, block, count, type, root, native, request);
      });
}

}  // namespace kerkis::comm
