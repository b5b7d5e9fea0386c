// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include <kerkis/comm/collective.hpp>

namespace kerkis::comm {

/// The elements of a View as one block per rank, one after the other in the order of ranks. Equal on all ranks, except
/// in all_to_all.
class Blocks {
 public:
  /// Blocks of `counts` elements or, if it is empty, of `each`. Throws InputError unless `counts` has a number per
  /// rank.
  Blocks(Caller caller, const Communicator& communicator, std::span<const std::size_t> counts, std::size_t each)
      : caller_(caller), ranks_(static_cast<std::size_t>(communicator.size())),
        rank_(static_cast<std::size_t>(communicator.rank())), each_(each) {
    if (!counts.empty()) [[unlikely]]
      set_begins(counts);
  }

  /// The blocks of a View of `whole` elements. Throws InputError unless that is what `counts`, or equal blocks, make.
  static Blocks of(Caller caller, const Communicator& communicator, std::span<const std::size_t> counts,
                   std::size_t whole) {
    const auto ranks = static_cast<std::size_t>(communicator.size());
    const std::size_t each = whole / ranks;
    require(!counts.empty() || each * ranks == whole, caller, " over ", ranks, " ranks: ", whole,
            " elements do not make equal blocks");
    Blocks blocks(caller, communicator, counts, each);
    if (!blocks.equal()) blocks.check_whole(whole);
    return blocks;
  }

  /// Throw InputError unless a View of so many elements holds all blocks, or this rank's.
  void check_whole(std::size_t elements) const {
    require(elements == total(), caller_, " over ", ranks_, " ranks: the blocks have ", total(),
            " elements together, the View of all of them ", elements);
  }
  void check_mine(std::size_t elements) const {
    require(elements == mine(), caller_, " over ", ranks_, " ranks: the block of rank ", rank_, " has ", mine(),
            " elements, its View ", elements);
  }

  bool equal() const { return begins_ == nullptr; }
  std::size_t ranks() const { return ranks_; }
  std::size_t rank() const { return rank_; }
  std::size_t begin(std::size_t rank) const { return equal() ? rank * each_ : begins_[rank]; }
  std::size_t size(std::size_t rank) const { return equal() ? each_ : begins_[rank + 1] - begins_[rank]; }
  std::size_t mine() const { return size(rank_); }
  std::size_t total() const { return begin(ranks_); }

  /// Where each begins, and the end of the last; null: equal blocks.
  const std::size_t* begins() const { return begins_.get(); }

  /// Whether one MPI call with int counts can move them.
  bool fit(const Communicator& communicator) const {
    return total() <= communicator.state()->engine->options().largest_count;
  }

 private:
  [[gnu::noinline]] void set_begins(std::span<const std::size_t> counts) {
    require(counts.size() == ranks_, caller_, " over ", ranks_, " ranks: counts for ", counts.size());
    begins_ = std::make_unique<std::size_t[]>(ranks_ + 1);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      begins_[rank + 1] = begins_[rank] + counts[rank];
      require(begins_[rank + 1] >= counts[rank], caller_, " over ", ranks_, " ranks: counts whose sum overflows");
    }
  }

  Caller caller_;
  std::size_t ranks_, rank_, each_;
  std::unique_ptr<std::size_t[]> begins_;  // and the end of the last; null: equal blocks
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

}  // namespace kerkis::comm
