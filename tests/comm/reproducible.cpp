// SPDX-License-Identifier: Apache-2.0
// Reductions in a fixed order: the bits are those of a recursive tree computed here, whatever the number of ranks.
#include <doctest/doctest.h>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/reduce.hpp>
#include <kerkis/comm/reduce_scatter.hpp>
#include <kerkis/core/philox.hpp>

#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <optional>
#include <source_location>
#include <thread>
#include <vector>

#include "thrown.hpp"

namespace {

using kerkis::Communicator;
using kerkis::partition;
using kerkis::Reduction;
using kerkis::Request;
using kerkis::comm::OrderedShape;
using Host = Kokkos::DefaultHostExecutionSpace;
template <class T>
using View = Kokkos::View<T*, Kokkos::HostSpace>;

/// Element i of a shard: of any magnitude, so that the order of a sum shows.
template <class T>
T element(std::size_t shard, std::size_t i) {
  const kerkis::Random random(7, kerkis::stream_of("reproducible"));
  const auto place = static_cast<std::uint64_t>(shard) * 100'000 + i;
  const double value = static_cast<double>(random.below(2001, 2 * place)) - 1000;
  const double scaled = std::ldexp(value, static_cast<int>(random.below(12, 2 * place + 1)) - 10);
  if constexpr (std::is_integral_v<T>)
    return static_cast<T>(value * 1e6);
  else if constexpr (kerkis::comm::is_complex<T>)
    return T(static_cast<typename T::value_type>(scaled), static_cast<typename T::value_type>(value / 3));
  else
    return T(scaled / 3);
}

template <class A>
A join(Reduction reduction, A a, A b) {
  if (reduction == Reduction::product) return a * b;
  if constexpr (std::is_floating_point_v<A>)
    if (reduction == Reduction::minimum) return std::fmin(a, b);
  if constexpr (std::is_integral_v<A>)
    return static_cast<A>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  else
    return a + b;
}

/// The tree by its definition: `size` is a power of two.
template <class T>
std::optional<kerkis::comm::Accumulator<T>> tree(Reduction reduction, std::size_t begin, std::size_t size,
                                                 std::size_t shards, std::size_t i) {
  using A = kerkis::comm::Accumulator<T>;
  if (begin >= shards) return std::nullopt;
  if (size == 1) return static_cast<A>(element<T>(begin, i));
  const auto left = tree<T>(reduction, begin, size / 2, shards, i);
  const auto right = tree<T>(reduction, begin + size / 2, size / 2, shards, i);
  return right ? join(reduction, *left, *right) : *left;
}

template <class T>
T expected(Reduction reduction, std::size_t shards, std::size_t i) {
  return static_cast<T>(*tree<T>(reduction, 0, 64, shards, i));
}

template <class T>
View<T> my_shards(const Communicator& world, std::size_t shards, std::size_t count) {
  const auto mine = partition(static_cast<std::int64_t>(shards), world.size(), world.rank());
  const View<T> view("shards", static_cast<std::size_t>(mine.size()) * count);
  for (std::size_t i = 0; i < view.size(); ++i)
    view(i) = element<T>(static_cast<std::size_t>(mine.begin) + i / count, i % count);
  return view;
}

template <class T>
Request start(const Communicator& world, const View<T>& send, const View<T>& receive, Reduction reduction,
              const OrderedShape& shape) {
  using kerkis::comm::Access;
  auto wires = kerkis::comm::keep(world, kerkis::comm::use<Access::read>(Host(), world, send, "test"),
                                  kerkis::comm::use<Access::write>(Host(), world, receive, "test"));
  const auto [in, out] = wires->runs(world);
  return kerkis::comm::start_ordered<T>(
      world, {.name = "test", .type = in.type.name, .count = out.count, .where = std::source_location::current()}, {},
      std::move(wires), in, out, reduction, shape);
}

template <class T>
std::vector<T> all_expected(Reduction reduction, std::size_t shards, std::size_t begin, std::size_t end) {
  std::vector<T> values;
  for (std::size_t i = begin; i < end; ++i) values.push_back(expected<T>(reduction, shards, i));
  return values;
}

/// Elements of `result` that differ in a bit from those of `values`, from `begin`.
template <class T>
int differences(const View<T>& result, std::size_t begin, const std::vector<T>& values) {
  int different = 0;
  for (std::size_t i = 0; i < result.size(); ++i)
    different += std::memcmp(&values.at(begin + i), &result(i), sizeof(T)) != 0;
  return different;
}

/// The same, where the tree of `shards` shards gives the values.
template <class T>
int differences(const View<T>& result, std::size_t begin, Reduction reduction, std::size_t shards) {
  return differences(result, 0, all_expected<T>(reduction, shards, begin, begin + result.size()));
}

void delay(int rank, std::uint64_t number) {
  const kerkis::Random random(11, kerkis::stream_of("delay"));
  std::this_thread::sleep_for(
      std::chrono::microseconds(random.below(300, 64 * number + static_cast<std::uint64_t>(rank))));
}

template <class T>
void check_sums(const Communicator& world) {
  std::uint64_t number = 0;
  for (const std::size_t shards : {1u, 2u, 3u, 4u, 5u, 8u, 13u}) {
    for (const std::size_t count : {0u, 1u, 5u, 1001u, 9001u}) {
      CAPTURE(shards);
      CAPTURE(count);
      const auto ranks = static_cast<std::size_t>(world.size());
      const View<T> send = my_shards<T>(world, shards, count);
      const std::vector<T> sums = all_expected<T>(Reduction::sum, shards, 0, count);
      delay(world.rank(), ++number);

      const View<T> everywhere("everywhere", count);
      start<T>(world, send, everywhere, Reduction::sum, {.count = count, .shards = shards}).wait();
      CHECK(differences(everywhere, 0, sums) == 0);

      const int root = static_cast<int>(count) % world.size();
      const View<T> at_root("at root", world.rank() == root ? count : 0);
      start<T>(world, send, at_root, Reduction::sum, {.count = count, .shards = shards, .root = root}).wait();
      CHECK(differences(at_root, 0, sums) == 0);

      std::vector<std::size_t> counts(ranks, 0);  // the last rank gets two, the first the rest
      counts.back() = std::min<std::size_t>(count, 2);
      counts.front() += count - counts.back();
      if (ranks == 1) counts.front() = count;
      const kerkis::comm::Blocks blocks({"test", {}}, world, counts, 0);
      const auto rank = static_cast<std::size_t>(world.rank());
      const View<T> block("block", blocks.size(rank));
      start<T>(world, send, block, Reduction::sum, {.count = count, .shards = shards, .blocks = &blocks}).wait();
      CHECK(differences(block, blocks.begin(rank), sums) == 0);
    }
  }
}

TEST_CASE_TEMPLATE("sums have the bits of the tree over shards, at any number of ranks", T, float, double,
                   kerkis::float16, kerkis::bfloat16, std::int32_t, Kokkos::complex<float>) {
  check_sums<T>(Communicator(MPI_COMM_WORLD));
}

TEST_CASE("in pieces of any size") {
  for (const std::size_t largest : {40u, 97u, 1000u}) {
    kerkis::CommunicatorOptions options;
    options.largest_count = largest;
    const Communicator world(MPI_COMM_WORLD, "world", options);
    check_sums<float>(world);
    check_sums<kerkis::bfloat16>(world);
  }
}

TEST_CASE("other reductions than sums, and pieces of the usual size") {
  const Communicator world(MPI_COMM_WORLD);
  const std::size_t shards = 6, count = 300'000;
  const View<float> floats = my_shards<float>(world, shards, count), result("result", count);
  start<float>(world, floats, result, Reduction::minimum, {.count = count, .shards = shards}).wait();
  CHECK(differences(result, 0, Reduction::minimum, shards) == 0);
  const View<kerkis::float16> halves = my_shards<kerkis::float16>(world, shards, 100), half("result", 100);
  start<kerkis::float16>(world, halves, half, Reduction::product, {.count = 100, .shards = shards}).wait();
  CHECK(differences(half, 0, Reduction::product, shards) == 0);
  const View<float> none("none", 0);
  CHECK(refusal([&] { start<float>(world, none, none, Reduction::bitwise_and, {.count = 0, .shards = 1}); }) ==
        "test: there is no bitwise and of floating-point numbers");
  CHECK(refusal([&] { start<float>(world, none, none, Reduction::sum, {.count = 0, .shards = 0}); }) ==
        "test: no shards");
  CHECK_THROWS_AS(start<float>(world, result, result, Reduction::sum, {.count = count - 1, .shards = 6}),
                  kerkis::InputError);
}

TEST_CASE("in place, one shard per rank") {
  const Communicator world(MPI_COMM_WORLD);
  const auto ranks = static_cast<std::size_t>(world.size());
  const View<float> view = my_shards<float>(world, ranks, 5000);
  start<float>(world, view, view, Reduction::sum, {.count = 5000, .shards = ranks}).wait();
  CHECK(differences(view, 0, Reduction::sum, ranks) == 0);
}

TEST_CASE("as options of the operations, with Views of several dimensions") {
  const Communicator world(MPI_COMM_WORLD);
  const std::size_t shards = 6, rows = 11, columns = 13, count = rows * columns;
  const auto mine = partition(static_cast<std::int64_t>(shards), world.size(), world.rank());
  const auto fill = [&](const auto& view, std::size_t last) {  // in its order of elements
    for (std::size_t i = 0; i < view.size(); ++i)
      view.data()[i] = element<float>(static_cast<std::size_t>(mine.begin) + i / last, i % last);
  };
  const auto share = static_cast<std::size_t>(mine.size());
  const Kokkos::View<float***, Kokkos::LayoutRight, Kokkos::HostSpace> right("right", share, rows, columns);
  const Kokkos::View<float***, Kokkos::LayoutLeft, Kokkos::HostSpace> left("left", rows, columns, share);
  fill(right, count);
  fill(left, count);
  const Kokkos::View<float**, Kokkos::LayoutRight, Kokkos::HostSpace> sum_right("sum", rows, columns);
  const Kokkos::View<float**, Kokkos::LayoutLeft, Kokkos::HostSpace> sum_left("sum", rows, columns);
  kerkis::all_reduce(Host(), world, right, sum_right, {.shards = shards}).wait();
  kerkis::all_reduce(Host(), world, left, sum_left, {.shards = shards}).wait();
  CHECK(differences(View<float>(sum_right.data(), count), 0, Reduction::sum, shards) == 0);
  CHECK(differences(View<float>(sum_left.data(), count), 0, Reduction::sum, shards) == 0);

  const View<float> root("root", count);
  kerkis::reduce(Host(), world, right, root, {.shards = shards}).wait();
  if (world.rank() == 0) CHECK(differences(root, 0, Reduction::sum, shards) == 0);

  const auto ranks = static_cast<std::size_t>(world.size()), rank = static_cast<std::size_t>(world.rank());
  const View<float> blocks = my_shards<float>(world, shards, 50 * ranks), block("block", 50);
  kerkis::reduce_scatter(Host(), world, blocks, block, {.shards = shards}).wait();
  CHECK(differences(block, 50 * rank, Reduction::sum, shards) == 0);

  const View<float> in_place = my_shards<float>(world, ranks, 5000),
                    in_blocks = my_shards<float>(world, ranks, 50 * ranks);
  kerkis::all_reduce(Host(), world, in_place, {.reproducible = true}).wait();
  CHECK(differences(in_place, 0, Reduction::sum, ranks) == 0);
  kerkis::reduce_scatter(Host(), world, in_blocks, block, {.reproducible = true}).wait();
  CHECK(differences(block, 50 * rank, Reduction::sum, ranks) == 0);

  const View<float> wrong("wrong", share * 7 + 1);
  CHECK_THROWS_AS(kerkis::all_reduce(Host(), world, wrong, View<float>("sum", 7), {.shards = shards}),
                  kerkis::InputError);
}

TEST_CASE("a lone Communicator computes at once") {
  const Communicator alone;
  const View<kerkis::float16> send = my_shards<kerkis::float16>(alone, 7, 300), result("result", 300);
  CHECK_FALSE(start<kerkis::float16>(alone, send, result, Reduction::sum, {.count = 300, .shards = 7}).pending());
  CHECK(differences(result, 0, Reduction::sum, 7) == 0);
}

TEST_CASE("what is started after an operation of several steps takes its turn") {
  kerkis::CommunicatorOptions options;
  options.largest_count = 300;
  const Communicator world(MPI_COMM_WORLD, "world", options);
  for (std::uint64_t round = 0; round < 10; ++round) {
    const std::size_t shards = 5, count = 1000;
    const View<float> send = my_shards<float>(world, shards, count), a("a", count), b("b", count);
    const View<int> number("number", 1);
    number(0) = world.rank() == 0 ? 17 : 0;
    Request first = start<float>(world, send, a, Reduction::sum, {.count = count, .shards = shards});
    delay(world.rank(), 3 * round);
    for (int i = 0; i < (world.rank() * 7 + static_cast<int>(round)) % 40; ++i) world.poll();
    Request second = kerkis::broadcast(Host(), world, number);
    delay(world.rank(), 3 * round + 1);
    Request third = start<float>(world, send, b, Reduction::sum, {.count = count, .shards = shards});
    Request fourth = kerkis::barrier(world);
    const Communicator part = world.split(world.rank() % 2, 0, "part");
    if (round % 2 == 0) {
      fourth.wait();
      third.wait();
      CHECK(number(0) == 17);
      first.detach();
    } else {
      second.wait();
      first.wait();
      fourth.wait();
      third.wait();
    }
    CHECK(differences(a, 0, Reduction::sum, shards) == 0);
    CHECK(differences(b, 0, Reduction::sum, shards) == 0);
    CHECK(part.size() <= world.size());
  }
}

}  // namespace
