// SPDX-License-Identifier: Apache-2.0
// The types of two bytes between ranks: moved as they are, reduced in float and rounded once.
#include <doctest/doctest.h>
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/all_to_all.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/reduce.hpp>
#include <kerkis/comm/reduce_scatter.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace {

using kerkis::bfloat16;
using kerkis::Communicator;
using kerkis::float16;
using kerkis::Reduction;
using Host = Kokkos::DefaultHostExecutionSpace;
template <class T>
using View = Kokkos::View<T*, Kokkos::HostSpace>;

/// All patterns that are no NaN, turned by `shift`.
template <class T>
T value(std::size_t i, std::size_t shift = 0) {
  const T result = T::from_bits(static_cast<std::uint16_t>(i * 7 + shift * 8191));
  return std::isnan(result) ? T(static_cast<int>(i % 100)) : result;
}

template <class T>
View<T> filled(std::size_t count, std::size_t shift) {
  View<T> view("half", count);
  for (std::size_t i = 0; i < count; ++i) view(i) = value<T>(i, shift);
  return view;
}

template <class T, class F>
int differences(const View<T>& view, F&& expected) {
  int different = 0;
  for (std::size_t i = 0; i < view.size(); ++i) {
    const T right = expected(i);
    different += std::isnan(right) ? !std::isnan(view(i)) : view(i).bits() != right.bits();
  }
  return different;
}

/// The pairwise tree over ranks, in float.
template <class F>
float tree(std::size_t begin, std::size_t size, std::size_t ranks, F&& leaf, float (*join)(float, float)) {
  if (size == 1) return leaf(begin);
  const float left = tree(begin, size / 2, ranks, leaf, join);
  return begin + size / 2 < ranks ? join(left, tree(begin + size / 2, size / 2, ranks, leaf, join)) : left;
}

template <class T>
T reduced(std::size_t i, std::size_t ranks, float (*join)(float, float)) {
  return T(tree(0, 4, ranks, [i](std::size_t rank) -> float { return value<T>(i, rank); }, join));
}

float add(float a, float b) { return a + b; }
float multiply(float a, float b) { return a * b; }
float least(float a, float b) { return a < b || (a == b && std::signbit(a)) ? a : b; }
float greatest(float a, float b) { return least(a, b) == a && !(a == b && std::signbit(a) == std::signbit(b)) ? b : a; }

TEST_CASE_TEMPLATE("reductions are rounded once", T, float16, bfloat16) {
  const Communicator world(MPI_COMM_WORLD);
  const auto ranks = static_cast<std::size_t>(world.size()), rank = static_cast<std::size_t>(world.rank());
  const std::size_t count = 9000;
  const auto check = [&](Reduction reduction, float (*join)(float, float)) {
    const View<T> view = filled<T>(count, rank);
    kerkis::all_reduce(Host(), world, view, {.operation = reduction}).wait();
    CHECK(differences(view, [&](std::size_t i) { return reduced<T>(i, ranks, join); }) == 0);
  };
  check(Reduction::sum, add);
  check(Reduction::product, multiply);
  check(Reduction::minimum, least);
  check(Reduction::maximum, greatest);

  const View<T> send = filled<T>(count * ranks, rank), block("block", count), all("all", count * ranks);
  kerkis::reduce_scatter(Host(), world, send, block).wait();
  CHECK(differences(block, [&](std::size_t i) { return reduced<T>(rank * count + i, ranks, add); }) == 0);
  kerkis::reduce(Host(), world, send, all, {.root = world.size() - 1}).wait();
  if (rank == ranks - 1) CHECK(differences(all, [&](std::size_t i) { return reduced<T>(i, ranks, add); }) == 0);
}

TEST_CASE("a sum that halves could not hold on the way") {
  const Communicator world(MPI_COMM_WORLD);
  const View<float16> view("view", 2);
  view(0) = float16(world.rank() == 0 ? 2048 : 1);           // 2048 + 1 is 2048 in float16
  view(1) = float16(world.rank() % 2 == 0 ? 60000 : -1000);  // 120000 would be infinite
  kerkis::all_reduce(Host(), world, view).wait();
  CHECK(view(0) == float16(2047 + world.size()));
  const float sums[] = {60000, 59000, 119000, 118000};
  CHECK(view(1) == float16(sums[world.size() - 1]));
}

TEST_CASE_TEMPLATE("moves keep the bits", T, float16, bfloat16) {
  const Communicator world(MPI_COMM_WORLD);
  const auto ranks = static_cast<std::size_t>(world.size()), rank = static_cast<std::size_t>(world.rank());
  const View<T> mine = filled<T>(70'000, rank);
  mine(3) = std::numeric_limits<T>::signaling_NaN();
  const auto of_rank = [](std::size_t from) {
    return [from](std::size_t i) { return i == 3 ? std::numeric_limits<T>::signaling_NaN() : value<T>(i, from); };
  };

  const View<T> all("all", ranks * mine.size());
  kerkis::all_gather(Host(), world, mine, all).wait();
  for (std::size_t from = 0; from < ranks; ++from)
    CHECK(differences<T>(Kokkos::subview(all, std::pair(from * mine.size(), (from + 1) * mine.size())),
                         of_rank(from)) == 0);

  if (ranks > 1) {
    const View<T> came("came", mine.size());
    auto receive = kerkis::receive(Host(), world, came, {.from = static_cast<int>((rank + 1) % ranks)});
    kerkis::send(Host(), world, mine, {.to = static_cast<int>((rank + ranks - 1) % ranks)}).wait();
    receive.wait();
    CHECK(differences(came, of_rank((rank + 1) % ranks)) == 0);
    CHECK(came(3).bits() == std::numeric_limits<T>::signaling_NaN().bits());
  }

  const View<T> blocks("blocks", 100 * ranks), turned("turned", 100 * ranks);
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks(i) = value<T>(i, rank);
  kerkis::all_to_all(Host(), world, blocks, turned).wait();
  CHECK(differences(turned, [&](std::size_t i) { return value<T>(rank * 100 + i % 100, i / 100); }) == 0);

  kerkis::broadcast(Host(), world, mine).wait();
  CHECK(differences(mine, of_rank(0)) == 0);
}

TEST_CASE("strided Views of halves") {
  const Communicator world(MPI_COMM_WORLD);
  const Kokkos::View<bfloat16**, Kokkos::LayoutLeft, Kokkos::HostSpace> whole("whole", 6, 8);
  Kokkos::deep_copy(whole, bfloat16(1.5f));
  const auto row = Kokkos::subview(whole, 2, Kokkos::ALL);
  kerkis::all_reduce(Host(), world, row).wait();
  for (std::size_t j = 0; j < 8; ++j) {
    CHECK(whole(2, j) == 1.5f * static_cast<float>(world.size()));
    CHECK(whole(1, j) == 1.5f);
  }
}

}  // namespace
