// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <kerkis/comm/blocks.hpp>
#include <kerkis/comm/ordered_tree.hpp>
#include <kerkis/core/partition.hpp>

namespace kerkis::comm {

/// What an ordered reduction reduces, and where the result goes.
struct OrderedShape {
  std::size_t count = 0;   ///< elements of a shard, and of the result; equal on all ranks
  std::size_t shards = 0;  ///< of all ranks together: rank r gives partition(shards, size, r), one after the other
  const Blocks* blocks = nullptr;  ///< rank r receives block r; null: everything
  int root = -1;                   ///< it alone receives; -1: every rank
};

/// A reduction whose result has the same bits whatever the algorithms of the MPI library, the timing, the pieces, and
/// the number of ranks over which the shards lie. Rank d computes the d-th slice: it gets that of every shard by an
/// all_to_all, reduces along the pairwise tree over the index of shards, rounds once, and an all_gather, or a gather,
/// spreads the result. A rank of several shards sends the fewest nodes of the tree that they make up, unrounded.
///
/// It goes in pieces, so that besides small vectors it borrows at most 2 `piece_bytes` of the communicator's buffers
/// (while a slice of a piece is at least an element).
template <class T>
class OrderedReduction final : public Steps {
 public:
  using A = Accumulator<T>;
  static constexpr std::size_t piece_bytes = std::size_t{1} << 21;
  /// Up to so many bytes, all nodes together, every rank gets them and reduces everything: one step instead of two.
  static constexpr std::size_t small_bytes = std::size_t{1} << 14;

  OrderedReduction(const Communicator& communicator, Caller caller, const OrderedShape& shape, const Run<T>& send,
                   const Run<T>& receive, Merge<A> merge, std::unique_ptr<Steps> rest)
      : Steps(true), name_(caller.name), native_(communicator.native()),
        ranks_(static_cast<std::size_t>(communicator.size())), rank_(static_cast<std::size_t>(communicator.rank())),
        shape_(shape), scattered_(shape.blocks != nullptr), send_(send), receive_(receive), merge_(merge),
        rest_(std::move(rest)), wide_(shape.shards > ranks_), numbers_(6 * ranks_) {
    Resources* const resources = comm::resources(communicator);
    const std::size_t longest = communicator.state()->engine->options().largest_count;
    std::size_t slice = 0, most_nodes = 0;
    for (std::size_t r = 0; r < ranks_; ++r) {
      const Range shards = share(shape.shards, r);
      slices_.push_back(shape.blocks ? shape.blocks->begin(r) : static_cast<std::size_t>(share(shape.count, r).begin));
      first_node_.push_back(nodes_.size());
      for_each_node(static_cast<std::size_t>(shards.begin), static_cast<std::size_t>(shards.end),
                    [&](const TreeNode& node) { nodes_.push_back(node); });
      most_nodes = std::max(most_nodes, nodes_.size() - first_node_.back());
    }
    slices_.push_back(shape.count);
    first_node_.push_back(nodes_.size());
    shape_.blocks = nullptr;
    const std::size_t widest = std::max({nodes_.size(), most_nodes * ranks_, ranks_});
    const std::size_t element = wide_ ? sizeof(A) : sizeof(T);
    together_ = !scattered_ && shape.root < 0 && shape.count <= small_bytes / (nodes_.size() * element) &&
                shape.count <= longest / widest;
    for (std::size_t r = 0; r < ranks_; ++r) slice = std::max(slice, slice_size(r));
    require(widest <= longest, caller, " in order: ", widest,
            " elements go in one call, more than the largest count of ", longest);
    each_ = std::max<std::size_t>(1, std::min(std::min(longest, piece_bytes / element) / widest, slice));
    pieces_ = std::max<std::size_t>(1, (slice + each_ - 1) / each_);

    const bool within = shape.count <= longest;
    direct_send_ = within && !wide_;
    direct_result_ = scattered_ || together_ || (within && receives());
    received_ = Resources::lend(resources, host_buffers(), nodes_.size() * each_ * element);
    scratch_ = Resources::lend(resources, host_buffers(), tree_scratch<A>(shape.shards));
    if (!direct_send_)
      packed_ = Resources::lend(resources, host_buffers(), my_nodes() * each_ * (together_ ? 1 : ranks_) * element);
    if (!direct_result_) result_ = Resources::lend(resources, host_buffers(), each_ * ranks_ * sizeof(T));
    if (wide_)
      for (auto shard = share(shape.shards, rank_); shard.begin < shard.end; ++shard.begin)
        leaves_.push_back({static_cast<std::size_t>(shard.begin), 1});
  }

  /// Starts the exchange of a piece; returns MPI's code.
  int exchange(MPI_Request* request) {
    int *const send_counts = numbers_.data(), *const send_places = send_counts + ranks_;
    int *const counts = send_places + ranks_, *const places = counts + ranks_;
    std::size_t packed = 0;
    for (std::size_t r = 0; r < ranks_; ++r) {
      send_counts[r] = static_cast<int>(my_nodes() * length(r));
      send_places[r] = static_cast<int>(direct_send_ ? place(r) : packed);
      packed += my_nodes() * length(r);
      counts[r] = static_cast<int>((first_node_[r + 1] - first_node_[r]) * length(rank_));
      places[r] = static_cast<int>(first_node_[r] * length(rank_));
    }
    if (!direct_send_) wide_ ? pack<A>() : pack<T>();
    const MPI_Datatype type = wide_ ? wide_type() : send_.type.native;
    const void* const from = direct_send_ ? send_.data : packed_.data();
    if (together_ && same_nodes())
      return MPI_Iallgather(from, counts[0], type, received_.data(), counts[0], type, native_, request);
    if (together_)
      return MPI_Iallgatherv(from, send_counts[rank_], type, received_.data(), counts, places, type, native_, request);
    if (same_nodes() && in_line(!direct_send_))
      return MPI_Ialltoall(from, counts[0], type, received_.data(), counts[0], type, native_, request);
    return MPI_Ialltoallv(from, send_counts, send_places, type, received_.data(), counts, places, type, native_,
                          request);
  }

  bool next(MPI_Request& request, const MPI_Status& status) override {
    if (stage_ == Stage::exchange) {
      wide_ ? reduce<A>() : reduce<T>();
      if (!scattered_ && !together_) {
        stage_ = Stage::gather;
        check(gather(&request), name_);
        return false;
      }
    } else if (stage_ == Stage::gather && receives() && !direct_result_) {
      const T* const result = static_cast<const T*>(result_.data());
      for (std::size_t r = 0; r < ranks_; ++r) std::copy_n(result + r * each_, length(r), receive_.data + place(r));
    }
    if (stage_ != Stage::rest && ++piece_ < pieces_) {
      stage_ = Stage::exchange;
      check(exchange(&request), name_);
      return false;
    }
    stage_ = Stage::rest;
    return rest_ == nullptr || rest_->next(request, status);
  }
  std::uint64_t checksum() const override { return rest_ != nullptr ? rest_->checksum() : 0; }

 private:
  enum class Stage { exchange, gather, rest };

  Range share(std::size_t count, std::size_t r) const {
    return partition(static_cast<std::int64_t>(count), static_cast<std::int64_t>(ranks_), static_cast<std::int64_t>(r));
  }
  std::size_t my_nodes() const { return first_node_[rank_ + 1] - first_node_[rank_]; }
  bool receives() const { return shape_.root < 0 || static_cast<std::size_t>(shape_.root) == rank_; }
  MPI_Datatype wide_type() const {
    if constexpr (is_half<T>)
      return MPI_FLOAT;
    else
      return send_.type.native;
  }

  std::size_t slice_size(std::size_t r) const { return together_ ? shape_.count : slices_[r + 1] - slices_[r]; }
  /// Of this piece of slice r: where it begins in a shard, and its elements.
  std::size_t place(std::size_t r) const { return (together_ ? 0 : slices_[r]) + piece_ * each_; }
  std::size_t length(std::size_t r) const {
    const std::size_t size = slice_size(r);
    return size <= piece_ * each_ ? 0 : std::min(each_, size - piece_ * each_);
  }

  /// Whether ranks give equally many nodes; and whether this piece of all slices is equally long, and lies at equal
  /// distances without gaps. The same on all ranks. MPI libraries move what is even up to twice as fast.
  bool same_nodes() const {
    for (std::size_t r = 0; r < ranks_; ++r)
      if (first_node_[r] != r * first_node_[1]) return false;
    return nodes_.size() == ranks_ * first_node_[1];
  }
  bool in_line(bool packed) const {
    if (!packed && pieces_ > 1) return false;
    for (std::size_t r = 0; r < ranks_; ++r)
      if (length(r) != each_) return false;
    return true;
  }

  /// The nodes of this rank's shards, slice by slice.
  template <class Wire>
  void pack() {
    Wire* to = static_cast<Wire*>(packed_.data());
    const std::span<const TreeNode> nodes = std::span(nodes_).subspan(first_node_[rank_], my_nodes());
    for (std::size_t r = 0; r < ranks_; ++r) {
      if (together_ && r != rank_) continue;
      std::size_t leaf = 0;
      for (const TreeNode& node : nodes) {
        const auto leaves = wide_ ? std::span<const TreeNode>(leaves_).subspan(leaf, node.size) : std::span(&node, 1);
        reduce_tree<A>(merge_, leaves, send_.data + leaf * shape_.count + place(r), shape_.count, length(r), to,
                       scratch_.data());
        leaf += node.size;
        to += length(r);
      }
    }
  }

  /// This rank's slice of the result, from the nodes that have come.
  template <class Wire>
  void reduce() {
    reduce_tree<A>(merge_, std::span<const TreeNode>(nodes_), static_cast<const Wire*>(received_.data()), length(rank_),
                   length(rank_), slice(), scratch_.data());
  }

  T* slice() const {
    if (!direct_result_) return static_cast<T*>(result_.data()) + rank_ * each_;
    return receive_.data + (scattered_ ? piece_ * each_ : place(rank_));
  }

  int gather(MPI_Request* request) {
    int *const counts = numbers_.data() + 4 * ranks_, *const places = counts + ranks_;
    for (std::size_t r = 0; r < ranks_; ++r) {
      counts[r] = static_cast<int>(length(r));
      places[r] = static_cast<int>(direct_result_ ? place(r) : r * each_);
    }
    void* const to = direct_result_ ? static_cast<void*>(receive_.data) : result_.data();
    const MPI_Datatype type = send_.type.native;
    if (shape_.root < 0 && in_line(!direct_result_))
      return MPI_Iallgather(MPI_IN_PLACE, 0, type, to, counts[0], type, native_, request);
    if (shape_.root < 0) return MPI_Iallgatherv(MPI_IN_PLACE, 0, type, to, counts, places, type, native_, request);
    if (receives()) return MPI_Igatherv(MPI_IN_PLACE, 0, type, to, counts, places, type, shape_.root, native_, request);
    return MPI_Igatherv(slice(), counts[rank_], type, nullptr, counts, places, type, shape_.root, native_, request);
  }

  const char* name_;
  MPI_Comm native_;
  std::size_t ranks_, rank_;
  OrderedShape shape_;
  bool scattered_;
  Run<T> send_, receive_;
  Merge<A> merge_;
  std::unique_ptr<Steps> rest_;
  bool wide_;                             // nodes go as A, since some are sums
  std::vector<int> numbers_;              // counts and places, which MPI reads until a step is complete
  std::vector<TreeNode> nodes_, leaves_;  // of all ranks, in order; of this one
  std::vector<std::size_t> slices_;       // where that of each rank begins, unless everybody has all
  std::vector<std::size_t> first_node_;   // of each rank
  std::size_t each_ = 1, pieces_ = 1, piece_ = 0;
  bool together_ = false, direct_send_ = false, direct_result_ = false;
  Block received_, scratch_, packed_, result_;
  Stage stage_ = Stage::exchange;
};

/// Starts an ordered reduction, by the functor or, for `Named`, as `reduction` says. Both runs lie in host memory, in
/// the order of elements; `send` and `receive` are the same memory or share none. `keep` (as `comm::keep` makes it, may
/// be null) lives until the end and finishes what has come. One rank alone, also that of the default Communicator,
/// computes at once. Throws InputError if a run does not have the elements that `shape` says, if there are no shards,
/// or no such reduction of T.
template <class T, class Functor = Named>
Request start_ordered(const Communicator& communicator, Operation operation, std::chrono::milliseconds deadline,
                      std::unique_ptr<Steps> keep, const Run<T>& send, const Run<T>& receive, Reduction reduction,
                      const OrderedShape& shape) {
  const auto [merge, words] = merge_of<T, Functor>(reduction, operation.caller());
  operation.reduction = words;
  operation.shards = shape.shards;
  if (shape.blocks != nullptr) operation.begins = shape.blocks->begins();
  const int rank = communicator.rank();
  const Range mine = partition(static_cast<std::int64_t>(shape.shards), communicator.size(), rank);
  require(shape.shards > 0, operation.caller(), ": no shards");
  require(send.count == static_cast<std::size_t>(mine.size()) * shape.count, operation.caller(), " of ", shape.shards,
          " shards of ", shape.count, " elements over ", communicator.size(), " ranks: rank ", rank, " gives ",
          mine.size(), " shards, not ", send.count, " elements");
  const std::size_t wanted = shape.blocks                           ? shape.blocks->size(static_cast<std::size_t>(rank))
                             : shape.root < 0 || shape.root == rank ? shape.count
                                                                    : receive.count;
  require(receive.count == wanted, operation.caller(), ": the result has ", wanted, " elements on rank ", rank,
          ", not ", receive.count);
  if (alone(operation.caller(), communicator, deadline)) {
    std::vector<TreeNode> leaves(shape.shards);
    for (std::size_t i = 0; i < shape.shards; ++i) leaves[i] = {i, 1};
    Resources* const resources = comm::resources(communicator);
    const Block scratch = Resources::lend(resources, host_buffers(), tree_scratch<Accumulator<T>>(shape.shards));
    reduce_tree<Accumulator<T>>(merge, std::span<const TreeNode>(leaves), static_cast<const T*>(send.data), shape.count,
                                shape.count, receive.data, scratch.data());
    MPI_Request none = MPI_REQUEST_NULL;
    if (keep) keep->next(none, MPI_Status());
    return {};
  }
  auto steps = std::make_unique<OrderedReduction<T>>(communicator, operation.caller(), shape, send, receive, merge,
                                                     std::move(keep));
  OrderedReduction<T>* const self = steps.get();
  return Request::start(communicator, operation, deadline, std::move(steps),
                        [self](MPI_Request* request) { return self->exchange(request); });
}

}  // namespace kerkis::comm
