// SPDX-License-Identifier: Apache-2.0
#pragma once

// Compares the collectives with plain MPI: for an element type and two layouts, every operation with a pairwise cover
// of in place or not, counts, roots, uneven blocks, reductions, communicators (plain, of pieces, of staged memory),
// waiting and testing; with KERKIS_TEST_ALL=1 in the environment (ctest -L product) their whole product. Types and
// layouts are compiled: each matrix_….cpp has a few.

#include <doctest/doctest.h>
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/all_to_all.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/exclusive_scan.hpp>
#include <kerkis/comm/gather.hpp>
#include <kerkis/comm/reduce.hpp>
#include <kerkis/comm/reduce_scatter.hpp>
#include <kerkis/comm/scan.hpp>
#include <kerkis/comm/scatter.hpp>

#include <array>
#include <cstdlib>
#include <numeric>
#include <string>
#include <vector>

#include "comm/plain_mpi.hpp"

namespace matrix {

using kerkis::Communicator;
using kerkis::Reduction;
using Host = Kokkos::DefaultHostExecutionSpace;
using Kokkos::HostSpace;

// ---- layouts: Views of `count` elements; `all` is the memory with the gaps

/// An extent of five where `count` allows.
inline std::array<std::size_t, 2> two(std::size_t count) {
  return count % 5 == 0 ? std::array<std::size_t, 2>{5, count / 5} : std::array<std::size_t, 2>{1, count};
}

template <class T>
struct Scalar {
  static constexpr bool only_one = true;
  explicit Scalar(std::size_t) : all("scalar"), view(all) {}
  Kokkos::View<T, HostSpace> all, view;
};
template <class T>
struct Vector {
  static constexpr bool only_one = false;
  explicit Vector(std::size_t count) : all("vector", count), view(all) {}
  Kokkos::View<T*, HostSpace> all, view;
};
template <class T, class Layout>
struct Matrix {
  static constexpr bool only_one = false;
  explicit Matrix(std::size_t count) : all("matrix", two(count)[0], two(count)[1]), view(all) {}
  Kokkos::View<T**, Layout, HostSpace> all, view;
};
template <class T>
using Left = Matrix<T, Kokkos::LayoutLeft>;
template <class T>
struct Cube {
  static constexpr bool only_one = false;
  explicit Cube(std::size_t count)
      : all("cube", two(count)[0], two(two(count)[1])[0], two(two(count)[1])[1]), view(all) {}
  Kokkos::View<T***, Kokkos::LayoutRight, HostSpace> all, view;
};
/// Every third element.
template <class T>
struct Column {
  static constexpr bool only_one = false;
  explicit Column(std::size_t count) : all("column", count, 3), view(Kokkos::subview(all, Kokkos::ALL, 1)) {}
  Kokkos::View<T**, Kokkos::LayoutRight, HostSpace> all;
  Kokkos::View<T*, Kokkos::LayoutStride, HostSpace> view;
};
/// Rows of a LayoutLeft matrix.
template <class T>
struct Rows {
  static constexpr bool only_one = false;
  explicit Rows(std::size_t count)
      : all("rows", two(count)[0] + 2, two(count)[1]),
        view(Kokkos::subview(all, Kokkos::make_pair(std::size_t{1}, two(count)[0] + 1), Kokkos::ALL)) {}
  Kokkos::View<T**, Kokkos::LayoutLeft, HostSpace> all;
  Kokkos::View<T**, Kokkos::LayoutLeft, HostSpace> view;
};
/// The middle of a cube, with gaps in each direction.
template <class T>
struct Middle {
  static constexpr bool only_one = false;
  explicit Middle(std::size_t count)
      : all("middle", two(count)[0] + 1, two(two(count)[1])[0] + 2, two(two(count)[1])[1] + 1),
        view(Kokkos::subview(all, Kokkos::make_pair(std::size_t{1}, two(count)[0] + 1),
                             Kokkos::make_pair(std::size_t{1}, two(two(count)[1])[0] + 1),
                             Kokkos::make_pair(std::size_t{0}, two(two(count)[1])[1]))) {}
  Kokkos::View<T***, Kokkos::LayoutRight, HostSpace> all;
  Kokkos::View<T***, Kokkos::LayoutStride, HostSpace> view;
};

/// Calls f(element, index) for all elements in the order in which they travel.
template <class View, class F>
void for_each(const View& view, F&& f) {
  std::size_t n = 0;
  if constexpr (View::rank() == 0) {
    f(view(), n);
  } else if constexpr (View::rank() == 1) {
    for (std::size_t i = 0; i < view.extent(0); ++i) f(view(i), n++);
  } else if constexpr (std::is_same_v<typename View::array_layout, Kokkos::LayoutLeft>) {
    for (std::size_t j = 0; j < view.extent(1); ++j)
      for (std::size_t i = 0; i < view.extent(0); ++i) f(view(i, j), n++);
  } else if constexpr (View::rank() == 2) {
    for (std::size_t i = 0; i < view.extent(0); ++i)
      for (std::size_t j = 0; j < view.extent(1); ++j) f(view(i, j), n++);
  } else {
    for (std::size_t i = 0; i < view.extent(0); ++i)
      for (std::size_t j = 0; j < view.extent(1); ++j)
        for (std::size_t k = 0; k < view.extent(2); ++k) f(view(i, j, k), n++);
  }
}

/// A View of `count` elements in a layout; everything, gaps included, is `element<T>(99, 0)` at first.
template <class T, template <class> class Layout>
struct Data : Layout<T> {
  explicit Data(std::size_t count) : Layout<T>(count) {
    for_each(this->all, [](T& x, std::size_t) { x = blank(); });
  }
  Data(int rank, std::size_t count) : Data(count) { fill(rank, 0); }

  static T blank() { return element<T>(99, 0); }
  void fill(int rank, std::size_t first) {
    for_each(this->view, [&](T& x, std::size_t i) { x = element<T>(rank, first + i); });
  }
  /// Whether elements `begin` and so on are `expected`.
  bool has(const std::vector<Boxed<T>>& expected, std::size_t begin = 0) const {
    bool right = true;
    for_each(this->view, [&](const T& x, std::size_t i) {
      if (i >= begin && i < begin + expected.size()) right = right && x == expected[i - begin].value;
    });
    return right;
  }
  bool has(int rank, std::size_t count) const { return has(elements<T>(rank, count)); }
  /// Whether nothing was written to the gaps; clears the View.
  bool gaps_are_whole() {
    for_each(this->view, [](T& x, std::size_t) { x = blank(); });
    bool whole = true;
    for_each(this->all, [&](const T& x, std::size_t) { whole = whole && x == blank(); });
    return whole;
  }
};

// ---- cases

enum class Op {
  all_reduce,
  reduce,
  reduce_scatter,
  scan,
  exclusive_scan,
  all_gather,
  gather,
  scatter,
  all_to_all,
  broadcast
};
inline constexpr std::array names{"all_reduce", "reduce", "reduce_scatter", "scan",       "exclusive_scan",
                                  "all_gather", "gather", "scatter",        "all_to_all", "broadcast"};

struct Case {
  Op op{};
  bool in_place{}, last_root{}, uneven{}, reproducible{}, by_test{};
  std::size_t count{}, communicator{}, reduction{};
};

inline bool reduces(Op op) { return op <= Op::exclusive_scan; }
inline bool has_blocks(Op op) { return op == Op::reduce_scatter || (op >= Op::all_gather && op <= Op::all_to_all); }
inline bool has_root(Op op) { return op == Op::reduce || op == Op::gather || op == Op::scatter || op == Op::broadcast; }

/// Rows of a table of choices, of which two columns together take all their values; or all rows.
inline std::vector<std::vector<std::size_t>> cover(const std::vector<std::size_t>& choices) {
  const std::size_t all = std::accumulate(choices.begin(), choices.end(), std::size_t{1}, std::multiplies<>());
  const auto row = [&](std::size_t number) {
    std::vector<std::size_t> values;
    for (const std::size_t n : choices) {
      values.push_back(number % n);
      number /= n;
    }
    return values;
  };
  std::vector<std::vector<std::size_t>> rows;
  const char* const every = std::getenv("KERKIS_TEST_ALL");
  if (every != nullptr && std::string(every) == "1") {
    for (std::size_t i = 0; i < all; ++i) rows.push_back(row(i));
    return rows;
  }
  const std::size_t columns = choices.size(), wide = 16;  // choices have at most so many values
  std::vector<bool> seen(columns * columns * wide * wide);
  const auto pair = [&](std::size_t a, std::size_t b, const std::vector<std::size_t>& values) {
    return ((a * columns + b) * wide + values[a]) * wide + values[b];
  };
  for (std::size_t wanted = columns * (columns - 1) / 2; wanted > 0; --wanted)  // greedily
    for (std::size_t i = 0; i < all; ++i) {
      const auto values = row(i * 7919 % all);
      std::size_t fresh = 0;
      for (std::size_t a = 0; a < columns; ++a)
        for (std::size_t b = a + 1; b < columns; ++b)
          if (!seen[pair(a, b, values)]) ++fresh;
      if (fresh < wanted) continue;
      for (std::size_t a = 0; a < columns; ++a)
        for (std::size_t b = a + 1; b < columns; ++b) seen[pair(a, b, values)] = true;
      rows.push_back(values);
    }
  return rows;
}

/// The communicators of a program: made once, since making them is collective and slow.
struct Communicators {
  Communicator plain{MPI_COMM_WORLD, "plain"};
  Communicator pieces{MPI_COMM_WORLD, "pieces", {.largest_count = 64}};
  Communicator staged{MPI_COMM_WORLD, "staged", {.stage = true}};
  const Communicator& operator[](std::size_t i) const { return i == 0 ? plain : i == 1 ? pieces : staged; }
};

/// All operations on elements T: `Block` for what one rank has, `Whole` for all blocks, and in place.
template <class T, template <class> class Block, template <class> class Whole>
class Runner {
 public:
  explicit Runner(const Communicators& communicators) : communicators_(communicators) {}

  /// Runs the cases; returns how many.
  std::size_t run() {
    std::size_t number = 0;
    for (std::size_t op = 0; op < names.size(); ++op) {
      const bool reduction = reduces(Op(op));
      const std::vector<std::size_t> choices{2,
                                             has_root(Op(op)) ? 2u : 1u,
                                             has_blocks(Op(op)) ? 2u : 1u,
                                             reduction && Op(op) < Op::scan ? 2u : 1u,
                                             2,
                                             counts.size(),
                                             3,
                                             reduction ? plain::reductions<T>().size() : 1};
      for (const auto& row : cover(choices)) {
        case_ = {Op(op), row[0] > 0, row[1] > 0, row[2] > 0, row[3] > 0, row[4] > 0, row[5], row[6], row[7]};
        if (check()) ++number;
      }
    }
    return number;
  }

 private:
  using Expected = std::vector<Boxed<T>>;
  static constexpr std::array<std::size_t, 4> counts{0, 1, 15, 1000};

  const Communicator& world() const { return communicators_[case_.communicator]; }
  int rank() const { return communicators_.plain.rank(); }
  std::size_t ranks() const { return static_cast<std::size_t>(communicators_.plain.size()); }
  int root() const { return case_.last_root ? communicators_.plain.size() - 1 : 0; }
  bool on_root() const { return rank() == root(); }
  Reduction reduction() const { return plain::reductions<T>()[case_.reduction].reduction; }
  MPI_Op operation() const { return plain::reductions<T>()[case_.reduction].native; }

  void finish(kerkis::Request request) const {
    if (!case_.by_test) return request.wait();
    while (!request.test()) sched_yield();
  }

  bool check() {
    const std::size_t count = counts[case_.count];
    if ((Block<T>::only_one || Whole<T>::only_one) && (count != 1 || case_.uneven)) return false;
    INFO(kerkis::message(names[static_cast<std::size_t>(case_.op)], " of ", count, case_.in_place ? " in place" : "",
                         case_.uneven ? ", uneven" : "", case_.reproducible ? ", reproducible" : "", " over '",
                         world().name(), "', root ", root(), ", reduction ", static_cast<int>(reduction())));
    if (!has_blocks(case_.op))
      whole(count);
    else if (case_.op == Op::all_to_all)
      all_to_all(count);
    else
      blocks(count);
    return true;
  }

  /// Operations on Views of equal size.
  void whole(std::size_t count) {
    const bool ordered = case_.reproducible;
    Expected expected(count);
    plain::whole<T>(static_cast<int>(case_.op), elements<T>(rank(), count), expected, operation(), root());
    const bool gets = case_.op == Op::exclusive_scan ? rank() > 0 : case_.op == Op::reduce ? on_root() : true;
    if (case_.in_place || case_.op == Op::broadcast) {
      Data<T, Whole> data(rank(), count);
      finish(start(data.view, ordered));
      CHECK((gets ? data.has(expected) : data.has(rank(), count)));
      CHECK(data.gaps_are_whole());
    } else {
      Data<T, Block> send(rank(), count);
      Data<T, Whole> receive(count);
      finish(start(send.view, receive.view, ordered));
      CHECK(send.has(rank(), count));
      if (gets)
        CHECK(receive.has(expected));
      else
        CHECK(receive.has(Expected(count, Boxed<T>{receive.blank()})));
      CHECK(receive.gaps_are_whole());
    }
  }
  template <class View>
  kerkis::Request start(const View& view, bool ordered) const {
    using F = plain::FunctorOf<T>;
    switch (case_.op) {
    case Op::all_reduce:
      return kerkis::all_reduce<F>(Host(), world(), view, {.operation = reduction(), .reproducible = ordered});
    case Op::reduce:
      return kerkis::reduce<F>(Host(), world(), view,
                               {.root = root(), .operation = reduction(), .reproducible = ordered});
    case Op::scan:
      return kerkis::scan<F>(Host(), world(), view, {.operation = reduction()});
    case Op::exclusive_scan:
      return kerkis::exclusive_scan<F>(Host(), world(), view, {.operation = reduction()});
    default:
      return kerkis::broadcast(Host(), world(), view, {.root = root()});
    }
  }
  template <class Send, class Receive>
  kerkis::Request start(const Send& send, const Receive& receive, bool ordered) const {
    using F = plain::FunctorOf<T>;
    switch (case_.op) {
    case Op::all_reduce:
      return kerkis::all_reduce<F>(Host(), world(), send, receive, {.operation = reduction(), .reproducible = ordered});
    case Op::reduce:
      return kerkis::reduce<F>(Host(), world(), send, receive,
                               {.root = root(), .operation = reduction(), .reproducible = ordered});
    case Op::scan:
      return kerkis::scan<F>(Host(), world(), send, receive, {.operation = reduction()});
    default:
      return kerkis::exclusive_scan<F>(Host(), world(), send, receive, {.operation = reduction()});
    }
  }

  /// Operations on one block per rank, the same on all ranks.
  void blocks(std::size_t count) {
    using F = plain::FunctorOf<T>;
    std::vector<std::size_t> sizes(ranks(), count);
    if (case_.uneven)
      for (std::size_t r = 0; r < ranks(); ++r) sizes[r] = r + 1 == ranks() && ranks() > 1 ? 0 : count + 5 * r;
    const std::size_t all = std::accumulate(sizes.begin(), sizes.end(), std::size_t{0});
    const std::size_t mine = sizes[static_cast<std::size_t>(rank())];
    const std::size_t begin = std::accumulate(sizes.begin(), sizes.begin() + rank(), std::size_t{0});
    std::span<const std::size_t> given;
    if (case_.uneven) given = sizes;
    const Host host;

    if (case_.op == Op::reduce_scatter) {
      Expected expected(mine);
      plain::reduce_scatter<T>(sizes, elements<T>(rank(), all), expected, operation());
      const kerkis::ReduceScatterOptions options{
          .operation = reduction(), .counts = given, .reproducible = case_.reproducible};
      Data<T, Whole> send(rank(), all);
      if (case_.in_place) {
        finish(kerkis::reduce_scatter<F>(host, world(), send.view, options));
        CHECK(send.has(expected, begin));
        CHECK(send.gaps_are_whole());
      } else {
        Data<T, Block> receive(mine);
        finish(kerkis::reduce_scatter<F>(host, world(), send.view, receive.view, options));
        CHECK(receive.has(expected));
        CHECK(receive.gaps_are_whole());
        CHECK(send.has(rank(), all));
      }
      return;
    }

    Expected expected(all), block(mine);
    if (case_.op == Op::scatter) {
      plain::scatter<T>(sizes, elements<T>(root(), all), block, root());
      if (case_.in_place) {
        Data<T, Whole> data(on_root() ? all : mine);
        if (on_root()) data.fill(root(), 0);
        finish(kerkis::scatter(host, world(), data.view, {.root = root(), .counts = given}));
        CHECK((on_root() ? data.has(root(), all) : data.has(block)));
        CHECK(data.gaps_are_whole());
      } else {
        Data<T, Whole> send(on_root() ? all : 0);
        if (on_root()) send.fill(root(), 0);
        Data<T, Block> receive(mine);
        finish(kerkis::scatter(host, world(), send.view, receive.view, {.root = root(), .counts = given}));
        CHECK(receive.has(block));
        CHECK(receive.gaps_are_whole());
      }
      return;
    }

    plain::all_gather<T>(sizes, elements<T>(rank(), mine), expected);  // of gather, what the root gets
    const bool gets = case_.op == Op::all_gather || on_root();
    if (case_.in_place) {
      Data<T, Whole> data(gets ? all : mine);
      for_each(data.view, [&](T& x, std::size_t i) {
        if (!gets)
          x = element<T>(rank(), i);
        else if (i >= begin && i < begin + mine)
          x = element<T>(rank(), i - begin);
      });
      finish(case_.op == Op::gather ? kerkis::gather(host, world(), data.view, {.root = root(), .counts = given})
                                    : kerkis::all_gather(host, world(), data.view, {.counts = given}));
      CHECK((gets ? data.has(expected) : data.has(rank(), mine)));
      CHECK(data.gaps_are_whole());
    } else {
      Data<T, Block> send(rank(), mine);
      Data<T, Whole> receive(gets ? all : 0);
      finish(case_.op == Op::gather
                 ? kerkis::gather(host, world(), send.view, receive.view, {.root = root(), .counts = given})
                 : kerkis::all_gather(host, world(), send.view, receive.view, {.counts = given}));
      CHECK(send.has(rank(), mine));
      if (gets) CHECK(receive.has(expected));
      CHECK(receive.gaps_are_whole());
    }
  }

  void all_to_all(std::size_t count) {
    const auto size = [&](std::size_t from, std::size_t to) {
      return !case_.uneven ? count : (case_.in_place ? (from + to) % 3 : (from + 2 * to) % 3) * count;
    };
    std::vector<std::size_t> sent, received;
    for (std::size_t r = 0; r < ranks(); ++r) {
      sent.push_back(size(static_cast<std::size_t>(rank()), r));
      received.push_back(size(r, static_cast<std::size_t>(rank())));
    }
    const std::size_t out = std::accumulate(sent.begin(), sent.end(), std::size_t{0});
    const std::size_t in = std::accumulate(received.begin(), received.end(), std::size_t{0});
    Expected expected(in);
    plain::all_to_all<T>(sent, received, elements<T>(rank(), out), expected);
    kerkis::AllToAllOptions options;
    if (case_.uneven) options = {.send_counts = sent, .receive_counts = received};
    Data<T, Whole> data(rank(), out);
    if (case_.in_place) {
      finish(kerkis::all_to_all(Host(), world(), data.view, options));
      CHECK(data.has(expected));
      CHECK(data.gaps_are_whole());
    } else if constexpr (Block<T>::only_one) {
      Data<T, Whole> receive(in);
      finish(kerkis::all_to_all(Host(), world(), data.view, receive.view, options));
      CHECK(receive.has(expected));
    } else {
      Data<T, Block> receive(in);
      finish(kerkis::all_to_all(Host(), world(), data.view, receive.view, options));
      CHECK(receive.has(expected));
      CHECK(receive.gaps_are_whole());
      CHECK(data.has(rank(), out));
    }
  }

  const Communicators& communicators_;
  Case case_;
};

}  // namespace matrix
