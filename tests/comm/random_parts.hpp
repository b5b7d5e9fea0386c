// SPDX-License-Identifier: Apache-2.0
#pragma once

// One step of a random program on one rank.

#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/all_to_all.hpp>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/exchange.hpp>
#include <kerkis/comm/exclusive_scan.hpp>
#include <kerkis/comm/gather.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/persistent_collective.hpp>
#include <kerkis/comm/persistent_hand_off.hpp>
#include <kerkis/comm/reduce.hpp>
#include <kerkis/comm/reduce_scatter.hpp>
#include <kerkis/comm/scan.hpp>
#include <kerkis/comm/scatter.hpp>
#include <kerkis/comm/shift.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "random_steps.hpp"

namespace random_programs {

using kerkis::Communicator;
using kerkis::PersistentRequest;
using kerkis::Request;
using Host = Kokkos::DefaultHostExecutionSpace;
template <class T>
using View = Kokkos::View<T*, Kokkos::LayoutStride, Kokkos::HostSpace>;

/// Of zeros; if `strided`, every third element of its memory.
template <class T>
View<T> made(std::size_t count, bool strided) {
  const Kokkos::View<T**, Kokkos::LayoutRight, Kokkos::HostSpace> matrix("matrix", count, strided ? 3 : 1);
  return Kokkos::subview(matrix, Kokkos::ALL, 0);
}

template <class T>
bool holds(const View<T>& view, const std::vector<T>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (view(i) != expected[i]) return false;
  return view.size() == expected.size();
}

/// An operation under way on this rank.
struct Running {
  std::string name;
  Request request;
  std::function<bool()> is_right;  // when it is complete
};

/// A persistent operation, and what its View holds after the round.
struct Repeated {
  std::string name;
  View<int> view;
  PersistentRequest request;
  Request round;
  std::vector<int> expected;
};

/// A communicator, its members as ranks of the world, and its persistent operations, by name of their results.
struct Group {
  enum Round : std::size_t { sum, copy, sent, received, rounds };

  Communicator communicator;
  std::vector<int> members;
  std::array<Repeated, rounds> repeated;

  Group(const Communicator& its_communicator, std::vector<int> its_members)
      : communicator(its_communicator), members(std::move(its_members)) {
    for (std::size_t i = 0; i < rounds; ++i) repeated[i].view = made<int>(40, i % 2 == 0);
    const auto view = [&](Round round) { return repeated[round].view; };
    repeated[sum].request = kerkis::persistent_all_reduce(Host(), communicator, view(sum));
    repeated[copy].request =
        kerkis::persistent_broadcast(Host(), communicator, view(copy), {.root = communicator.size() - 1});
    if (communicator.size() == 1) return;
    repeated[sent].request = kerkis::persistent_send(Host(), communicator, view(sent), {.to = member(1), .tag = 9});
    repeated[received].request =
        kerkis::persistent_receive(Host(), communicator, view(received), {.from = member(-1), .tag = 9});
  }

  /// The rank so many further on.
  int member(int distance) const {
    const int size = communicator.size();
    return (communicator.rank() + distance + size) % size;
  }
};

/// One step on one rank: starts it, and knows what must come out. Ranks are those of the group.
template <class T>
class Part {
 public:
  /// `own` is random on each rank. What is started goes behind `running`.
  Part(unsigned seed, std::size_t number, const Step& step, const Group& group, Random& own,
       std::vector<Running>& running)
      : seed_(seed), number_(number), step_(step), group_(group), communicator_(group.communicator), own_(own),
        running_(running), rank_(communicator_.rank()), size_(communicator_.size()), root_(step.root % size_),
        count_(step.count) {
    for (int rank = 0; rank < size_; ++rank) {
      sizes_.push_back(step.uneven ? uneven_size(count_, static_cast<std::size_t>(rank)) : count_);
      begins_.push_back(begins_.back() + sizes_.back());
    }
    mine_ = sizes_[static_cast<std::size_t>(rank_)];
    begin_ = begins_[static_cast<std::size_t>(rank_)];
    total_ = begins_.back();
  }

  std::string name() const {
    return kerkis::message("step ", number_, ", ", name_of(step_.kind), " over '", communicator_.name(), "'");
  }

  /// Element i of what a rank puts in.
  T value(int rank, std::size_t i) const {
    return random_programs::value(seed_, number_, group_.members[static_cast<std::size_t>(rank)], i);
  }

  /// Element i of the reduction over the first so many ranks.
  T reduced(kerkis::Reduction reduction, int ranks, std::size_t i) const {
    T result = value(0, i);
    for (int rank = 1; rank < ranks; ++rank) {
      const T other = value(rank, i);
      result = reduction == kerkis::Reduction::sum       ? result + other
               : reduction == kerkis::Reduction::minimum ? std::min(result, other)
                                                         : std::max(result, other);
    }
    return result;
  }

  /// Of no persistent operation.
  void start() {
    constexpr std::array operations{&Part::all_reduce, &Part::reduce,    &Part::scan,    &Part::exclusive_scan,
                                    &Part::all_gather, &Part::gather,    &Part::scatter, &Part::reduce_scatter,
                                    &Part::all_to_all, &Part::broadcast, &Part::barrier, &Part::shift,
                                    &Part::exchange,   &Part::ring};
    (this->*operations[static_cast<std::size_t>(step_.kind) - static_cast<std::size_t>(Kind::all_reduce)])();
  }

 private:
  View<T> empty(std::size_t count) const { return made<T>(count, !step_.strided); }

  /// The elements from `first` on of what this rank puts in.
  View<T> filled(std::size_t first, std::size_t count) const {
    const View<T> view = made<T>(count, step_.strided);
    for (std::size_t i = 0; i < count; ++i) view(i) = value(rank_, first + i);
    return view;
  }

  std::span<const std::size_t> counts() const {
    return step_.uneven ? std::span<const std::size_t>(sizes_) : std::span<const std::size_t>();
  }

  /// The rank in whose block element i of all blocks lies.
  int owner(std::size_t i) const {
    return static_cast<int>(std::upper_bound(begins_.begin(), begins_.end(), i) - begins_.begin()) - 1;
  }

  /// The View will hold f(0), f(1)...
  template <class F>
  void expect(Request request, const View<T>& view, F f) {
    std::vector<T> expected;
    for (std::size_t i = 0; i < view.size(); ++i) expected.push_back(f(i));
    running_.push_back(
        {name(), std::move(request), [view, expected = std::move(expected)] { return holds(view, expected); }});
  }

  void all_reduce() {
    const View<T> from = filled(0, count_), to = step_.in_place ? from : empty(count_);
    const kerkis::AllReduceOptions options{.operation = step_.reduction, .reproducible = step_.reproducible};
    expect(step_.in_place ? kerkis::all_reduce(Host(), communicator_, to, options)
                          : kerkis::all_reduce(Host(), communicator_, from, to, options),
           to, [&](std::size_t i) { return reduced(step_.reduction, size_, i); });
  }

  /// Elsewhere than on the root nothing changes.
  void reduce() {
    const View<T> from = filled(0, count_), to = step_.in_place ? from : empty(count_);
    const kerkis::ReduceOptions options{
        .root = root_, .operation = step_.reduction, .reproducible = step_.reproducible};
    expect(step_.in_place ? kerkis::reduce(Host(), communicator_, to, options)
                          : kerkis::reduce(Host(), communicator_, from, to, options),
           to, [&](std::size_t i) {
             return rank_ == root_ ? reduced(step_.reduction, size_, i) : step_.in_place ? value(rank_, i) : T();
           });
  }

  void scan() {
    const View<T> from = filled(0, count_), to = step_.in_place ? from : empty(count_);
    const kerkis::ScanOptions options{.operation = step_.reduction};
    expect(step_.in_place ? kerkis::scan(Host(), communicator_, to, options)
                          : kerkis::scan(Host(), communicator_, from, to, options),
           to, [&](std::size_t i) { return reduced(step_.reduction, rank_ + 1, i); });
  }

  /// On the first rank nothing changes.
  void exclusive_scan() {
    const View<T> from = filled(0, count_), to = step_.in_place ? from : empty(count_);
    const kerkis::ExclusiveScanOptions options{.operation = step_.reduction};
    expect(step_.in_place ? kerkis::exclusive_scan(Host(), communicator_, to, options)
                          : kerkis::exclusive_scan(Host(), communicator_, from, to, options),
           to, [&](std::size_t i) {
             return rank_ > 0 ? reduced(step_.reduction, rank_, i) : step_.in_place ? value(rank_, i) : T();
           });
  }

  void all_gather() {
    const View<T> block = filled(begin_, mine_), all = step_.in_place ? filled(0, total_) : empty(total_);
    const kerkis::AllGatherOptions options{.counts = counts()};
    expect(step_.in_place ? kerkis::all_gather(Host(), communicator_, all, options)
                          : kerkis::all_gather(Host(), communicator_, block, all, options),
           all, [&](std::size_t i) { return value(owner(i), i); });
  }

  void gather() {
    const std::size_t here = rank_ == root_ ? total_ : 0;
    const View<T> block = filled(begin_, mine_), all = step_.in_place ? filled(0, here) : empty(here);
    const kerkis::GatherOptions options{.root = root_, .counts = counts()};
    expect(step_.in_place ? kerkis::gather(Host(), communicator_, rank_ == root_ ? all : block, options)
                          : kerkis::gather(Host(), communicator_, block, all, options),
           all, [&](std::size_t i) { return value(owner(i), i); });
  }

  void scatter() {
    const bool keeps = step_.in_place && rank_ == root_;
    const View<T> all = filled(0, rank_ == root_ ? total_ : 0), block = empty(mine_);
    const kerkis::ScatterOptions options{.root = root_, .counts = counts()};
    expect(step_.in_place ? kerkis::scatter(Host(), communicator_, keeps ? all : block, options)
                          : kerkis::scatter(Host(), communicator_, all, block, options),
           keeps ? all : block, [&](std::size_t i) { return value(root_, keeps ? i : begin_ + i); });
  }

  void reduce_scatter() {
    const View<T> all = filled(0, total_);
    const View<T> own = Kokkos::subview(all, std::pair(begin_, begin_ + mine_));
    const View<T> block = step_.in_place ? own : empty(mine_);
    const kerkis::ReduceScatterOptions options{
        .operation = step_.reduction, .counts = counts(), .reproducible = step_.reproducible};
    expect(step_.in_place ? kerkis::reduce_scatter(Host(), communicator_, all, options)
                          : kerkis::reduce_scatter(Host(), communicator_, all, block, options),
           block, [&](std::size_t i) { return reduced(step_.reduction, size_, begin_ + i); });
  }

  /// What a rank sends to another; in place as much as it receives from that one.
  std::size_t sent_size(int from, int to) const {
    const auto number = static_cast<std::size_t>(step_.in_place ? from + to : from + 2 * to);
    return step_.uneven ? uneven_size(count_, number) : count_;
  }

  void all_to_all() {
    std::vector<std::size_t> send_counts, receive_counts;
    std::vector<T> expected;
    for (int other = 0; other < size_; ++other) {
      send_counts.push_back(sent_size(rank_, other));
      receive_counts.push_back(sent_size(other, rank_));
      std::size_t begin = 0;  // of the block for this rank
      for (int rank = 0; rank < rank_; ++rank) begin += sent_size(other, rank);
      for (std::size_t i = 0; i < receive_counts.back(); ++i) expected.push_back(value(other, begin + i));
    }
    const View<T> from = filled(0, std::reduce(send_counts.begin(), send_counts.end()));
    const View<T> to = step_.in_place ? from : empty(expected.size());
    kerkis::AllToAllOptions options;
    if (step_.uneven) options = {.send_counts = send_counts, .receive_counts = receive_counts};
    expect(step_.in_place ? kerkis::all_to_all(Host(), communicator_, to, options)
                          : kerkis::all_to_all(Host(), communicator_, from, to, options),
           to, [&](std::size_t i) { return expected[i]; });
  }

  void broadcast() {
    const View<T> view = filled(0, count_);
    expect(kerkis::broadcast(Host(), communicator_, view, {.root = root_}), view,
           [&](std::size_t i) { return value(root_, i); });
  }

  void barrier() {
    expect(kerkis::barrier(communicator_), empty(0), [](std::size_t) { return T(); });
  }

  /// What comes from `from`; nothing from `no_rank`.
  T arrived(int from, std::size_t i) const {
    if (from == kerkis::no_rank) return step_.in_place ? value(rank_, i) : T();
    return value(from, i);
  }

  /// Around, or along a line.
  void shift() {
    const View<T> from = filled(0, count_), to = step_.in_place ? from : empty(count_);
    const int by = step_.root % 5 - 2, source = rank_ - by;
    const bool around = step_.uneven, none = !around && (source < 0 || source >= size_);
    const kerkis::ShiftOptions options{.by = by, .around = around, .tag = step_.tag};
    expect(step_.in_place ? kerkis::shift(Host(), communicator_, to, options)
                          : kerkis::shift(Host(), communicator_, from, to, options),
           to, [&](std::size_t i) { return arrived(none ? kerkis::no_rank : (source + 2 * size_) % size_, i); });
  }

  /// Of pairs, or along a line.
  void exchange() {
    const View<T> from = filled(0, count_), to = step_.in_place ? from : empty(count_);
    const auto rank_or_none = [&](int rank) { return rank >= 0 && rank < size_ ? rank : kerkis::no_rank; };
    const int source = rank_or_none(step_.uneven ? rank_ ^ 1 : rank_ - 1);
    kerkis::ExchangeOptions options{.with = source, .tag = step_.tag};
    if (!step_.uneven) options = {.to = rank_or_none(rank_ + 1), .from = source, .tag = step_.tag};
    expect(step_.in_place ? kerkis::exchange(Host(), communicator_, to, options)
                          : kerkis::exchange(Host(), communicator_, from, to, options),
           to, [&](std::size_t i) { return arrived(source, i); });
  }

  /// The message does not fill what receives it. Which comes first, and whether the send is waited for, is up to the
  /// rank.
  void ring() {
    if (size_ == 1) return;
    const View<T> from = filled(0, count_), to = empty(count_ + 20);
    const int source = group_.member(-1), tag = step_.tag + 3;
    Request send;
    const auto send_now = [&] {
      send = kerkis::send(Host(), communicator_, from, {.to = group_.member(1), .tag = tag});
    };
    const bool first = one_in(own_, 2);
    if (first) send_now();
    expect(kerkis::receive(Host(), communicator_, to, {.from = step_.uneven ? kerkis::any_rank : source, .tag = tag}),
           to, [&](std::size_t i) { return i < count_ ? value(source, i) : T(); });
    if (!first) send_now();
    if (one_in(own_, 2)) return send.detach();
    expect(std::move(send), from, [&](std::size_t i) { return value(rank_, i); });
  }

  unsigned seed_;
  std::size_t number_;
  const Step& step_;
  const Group& group_;
  const Communicator& communicator_;
  Random& own_;
  std::vector<Running>& running_;
  int rank_, size_, root_;
  std::size_t count_;
  std::vector<std::size_t> sizes_, begins_{0};  // of all blocks
  std::size_t mine_, begin_, total_;
};

}  // namespace random_programs
