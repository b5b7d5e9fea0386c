// SPDX-License-Identifier: Apache-2.0
// Every operation, element type and size against a serial computation.
#include <doctest/doctest.h>
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/reduce.hpp>
#include <kerkis/comm/reduce_scatter.hpp>

#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

namespace {

using kerkis::Communicator;
using kerkis::Reduction;
using Host = Kokkos::DefaultHostExecutionSpace;
template <class T>
using View = Kokkos::View<T*, Kokkos::HostSpace>;

constexpr Reduction reductions[] = {Reduction::sum, Reduction::minimum, Reduction::maximum};
constexpr std::size_t counts[] = {0, 1, 7, 100'000};

/// What `rank` has at `i`: small, so that sums are exact in every type.
template <class T>
T element(int rank, std::size_t i) {
  const int small = static_cast<int>((i * 7 + static_cast<std::size_t>(rank) * 5) % 23);
  return static_cast<T>(std::is_signed_v<T> ? small - 11 : small);
}

template <class T>
T reduced(Reduction reduction, int ranks, std::size_t i) {
  T result = element<T>(0, i);
  for (int rank = 1; rank < ranks; ++rank) {
    const T other = element<T>(rank, i);
    if (reduction == Reduction::sum) result = static_cast<T>(result + other);
    if (reduction == Reduction::minimum) result = std::min(result, other);
    if (reduction == Reduction::maximum) result = std::max(result, other);
  }
  return result;
}

template <class T>
View<T> filled(int rank, std::size_t count) {
  View<T> view("filled", count);
  for (std::size_t i = 0; i < count; ++i) view(i) = element<T>(rank, i);
  return view;
}

/// Whether view(i) == expected(i) for all i.
template <class T, class Expected>
bool is(const View<T>& view, Expected&& expected) {
  for (std::size_t i = 0; i < view.extent(0); ++i)
    if (view(i) != expected(i)) return false;
  return true;
}

TEST_CASE_TEMPLATE("every operation gives what a serial computation gives", T, float, double, std::int32_t,
                   std::int64_t, std::uint8_t) {
  const Host host;
  const Communicator world(MPI_COMM_WORLD);
  const int rank = world.rank(), ranks = world.size();
  const auto n = static_cast<std::size_t>(ranks);

  for (const std::size_t count : counts) {
    CAPTURE(count);
    for (const Reduction reduction : reductions) {
      const auto all = filled<T>(rank, count);
      kerkis::all_reduce(host, world, all, {.operation = reduction}).wait();
      CHECK(is(all, [&](std::size_t i) { return reduced<T>(reduction, ranks, i); }));

      const View<T> block("block", count);
      kerkis::reduce_scatter(host, world, filled<T>(rank, n * count), block, {.operation = reduction}).wait();
      CHECK(is(block, [&](std::size_t i) {
        return reduced<T>(reduction, ranks, static_cast<std::size_t>(rank) * count + i);
      }));
    }

    const View<T> gathered("gathered", n * count);
    kerkis::all_gather(host, world, Kokkos::View<const T*, Kokkos::HostSpace>(filled<T>(rank, count)), gathered).wait();
    CHECK(is(gathered, [&](std::size_t i) { return element<T>(static_cast<int>(i / count), i % count); }));

    for (int root = 0; root < ranks; ++root) {
      const auto same = filled<T>(rank, count);
      kerkis::broadcast(host, world, same, {.root = root}).wait();
      CHECK(is(same, [&](std::size_t i) { return element<T>(root, i); }));
    }

    if (ranks > 1) {  // round the ring, two messages of each tag
      const int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
      const View<T> from[] = {View<T>("a", count), View<T>("b", count), View<T>("c", count)};
      std::vector<kerkis::Request> requests;
      for (const int m : {2, 0, 1})
        requests.push_back(kerkis::receive(host, world, from[m], {.from = last, .tag = m / 2}));
      for (const int m : {0, 1, 2})
        requests.push_back(kerkis::send(host, world, filled<T>(rank + m, count), {.to = next, .tag = m / 2}));
      for (auto& request : requests) request.wait();
      for (const int m : {0, 1, 2}) CHECK(is(from[m], [&](std::size_t i) { return element<T>(last + m, i); }));
    }
  }
  kerkis::barrier(world).wait();
}

TEST_CASE_TEMPLATE("the other integers sum too", T, std::int8_t, std::int16_t, std::uint16_t, std::uint32_t,
                   std::uint64_t, char, long, long long) {
  const Communicator world(MPI_COMM_WORLD);
  const auto view = filled<T>(world.rank(), 9);
  kerkis::all_reduce(Host(), world, view).wait();
  CHECK(is(view, [&](std::size_t i) { return reduced<T>(Reduction::sum, world.size(), i); }));
}

/// Aligned more strictly than MPI's own buffers, or of a type that MPI does not know.
struct alignas(64) Wide {
  double values[8];
};
struct WideSum {
  static constexpr bool commutes = true;
  Wide operator()(const Wide& a, const Wide& b) const {
    Wide sum{};
    for (int i = 0; i < 8; ++i) sum.values[i] = a.values[i] + b.values[i];
    return sum;
  }
};

TEST_CASE("elements that are aligned more strictly than MPI's buffers") {
  const Communicator world(MPI_COMM_WORLD);
  const double ranks = world.size(), sum = ranks * (ranks - 1) / 2;  // of the ranks' numbers
  for (const std::size_t count : {1u, 3u, 1000u}) {
    const View<Wide> view("view", count), from("from", count), to("to", count);
    const auto refill = [&] {
      for (std::size_t i = 0; i < count; ++i)
        for (int k = 0; k < 8; ++k) view(i).values[k] = from(i).values[k] = world.rank() + k;
    };
    const auto right = [&](const View<Wide>& result) {
      for (std::size_t i = 0; i < count; ++i)
        for (int k = 0; k < 8; ++k)
          if (result(i).values[k] != sum + ranks * k) return false;
      return true;
    };
    for (const bool reproducible : {false, true}) {
      refill();
      kerkis::all_reduce<WideSum>(Host(), world, view, {.reproducible = reproducible}).wait();
      CHECK(right(view));
      kerkis::all_reduce<WideSum>(Host(), world, from, to, {.reproducible = reproducible}).wait();
      CHECK(right(to));
    }
    refill();
    kerkis::reduce<WideSum>(Host(), world, view).wait();
    CHECK((world.rank() != 0 || right(view)));
    refill();
    kerkis::broadcast(Host(), world, view).wait();
    CHECK(view(count - 1).values[7] == 7);
  }
}

TEST_CASE("numbers that MPI does not know are moved") {
  const Communicator world(MPI_COMM_WORLD);
  using Long = std::array<std::uint64_t, 2>;
  __extension__ using Number = __int128;
  const View<Number> view("view", 5);
  const View<Long> pairs("pairs", 5);
  for (std::size_t i = 0; i < 5; ++i) {
    view(i) = (static_cast<Number>(world.rank() + 3) << 100) + static_cast<Number>(i);
    pairs(i) = {i, static_cast<std::uint64_t>(world.rank())};
  }
  kerkis::broadcast(Host(), world, view).wait();
  kerkis::broadcast(Host(), world, pairs).wait();
  CHECK(is(view, [](std::size_t i) { return (static_cast<Number>(3) << 100) + static_cast<Number>(i); }));
  CHECK(is(pairs, [](std::size_t i) { return Long{i, 0}; }));
}

TEST_CASE("a barrier holds the first until the last has come") {
  const Host host;
  const Communicator world(MPI_COMM_WORLD);
  const View<int> go("go", 1);
  kerkis::Request request;
  if (world.rank() == 0) {
    request = kerkis::barrier(world);
    if (world.size() > 1) {
      for (int i = 0; i < 100; ++i) CHECK_FALSE(request.test());
    }
    for (int peer = 1; peer < world.size(); ++peer) kerkis::send(host, world, go, {.to = peer}).wait();
  } else {
    kerkis::receive(host, world, go, {.from = 0}).wait();
    request = kerkis::barrier(world);
  }
  request.wait();
  CHECK_FALSE(request.pending());
}

TEST_CASE("views of any rank, as their elements lie in memory") {
  const Host host;
  const Communicator world(MPI_COMM_WORLD);
  const auto ranks = static_cast<std::size_t>(world.size());
  const Kokkos::View<double, Kokkos::HostSpace> scalar("scalar");
  scalar() = world.rank() + 1;
  kerkis::all_reduce(host, world, scalar).wait();
  CHECK(scalar() == static_cast<double>(ranks * (ranks + 1) / 2));

  const auto row = filled<float>(world.rank(), 6);
  const Kokkos::View<float**, Kokkos::LayoutRight, Kokkos::HostSpace> rows("rows", ranks, 6);
  kerkis::all_gather(host, world, row, rows).wait();
  bool right = true;
  for (std::size_t r = 0; r < ranks; ++r)
    for (std::size_t i = 0; i < 6; ++i) right = right && rows(r, i) == element<float>(static_cast<int>(r), i);
  CHECK(right);

  Kokkos::deep_copy(row, 0);
  kerkis::reduce_scatter(host, world, rows, row).wait();
  CHECK(is(row, [&](std::size_t i) { return static_cast<float>(ranks) * element<float>(world.rank(), i); }));

  // A part of a contiguous array, and a part without elements of one that is not.
  const auto all = filled<int>(0, 10);
  kerkis::broadcast(host, world, Kokkos::subview(all, Kokkos::make_pair(2, 5))).wait();
  CHECK(is(all, [](std::size_t i) { return element<int>(0, i); }));
  const Kokkos::View<float**, Kokkos::LayoutLeft, Kokkos::HostSpace> columns("columns", 4, 4);
  CHECK_NOTHROW(kerkis::all_reduce(host, world, Kokkos::subview(columns, Kokkos::make_pair(1, 1), Kokkos::ALL)).wait());
}

TEST_CASE("groups of one never communicate") {
  const Host host;
  const Communicator self;
  CHECK(self.rank() == 0);
  CHECK(self.size() == 1);
  const auto view = filled<float>(3, 5);
  const View<float> other("other", 5);
  CHECK_FALSE(kerkis::all_reduce(host, self, view).pending());
  CHECK_FALSE(kerkis::broadcast(host, self, view).pending());
  CHECK_FALSE(kerkis::barrier(self).pending());
  kerkis::all_gather(host, self, view, other).wait();
  CHECK(is(other, [](std::size_t i) { return element<float>(3, i); }));
  CHECK_NOTHROW(self.poll());
}

TEST_CASE("groups of a split order their ranks by key") {
  const Communicator world(MPI_COMM_WORLD);
  const Communicator odd = world.split(world.rank() % 2, -world.rank(), "odd");
  CHECK(odd.size() == (world.size() + 1 - world.rank() % 2) / 2);
  CHECK(std::string(odd.name()) == "odd");
  const View<int> members("members", static_cast<std::size_t>(odd.size())), mine("mine", 1);
  mine(0) = world.rank();
  kerkis::all_gather(Host(), odd, mine, members).wait();
  CHECK(members(static_cast<std::size_t>(odd.rank())) == world.rank());
  CHECK(std::is_sorted(members.data(), members.data() + members.size(), std::greater<>()));
}

}  // namespace
