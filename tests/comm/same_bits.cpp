// SPDX-License-Identifier: Apache-2.0
// Every all_reduce of random numbers has the same bits on every rank, and so have minima and maxima of the values that
// MPI leaves open.
#include <doctest/doctest.h>
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/core/philox.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

namespace {

using kerkis::Communicator;
using kerkis::Reduction;
using Host = Kokkos::DefaultHostExecutionSpace;
template <class T>
using View = Kokkos::View<T*, Kokkos::HostSpace>;

/// Bytes of an element that count: the others of a long double are padding.
template <class T>
constexpr std::size_t significant =
    std::is_same_v<T, long double> && std::numeric_limits<T>::digits == 64 ? 10 : sizeof(T);

/// Whether all ranks hold the same bytes.
template <class T>
bool same_everywhere(const Communicator& world, const View<T>& view) {
  const std::size_t bytes = view.size() * sizeof(T);
  const View<std::uint8_t> mine("mine", bytes), all("all", bytes * static_cast<std::size_t>(world.size()));
  std::memcpy(mine.data(), view.data(), bytes);
  kerkis::all_gather(Host(), world, mine, all).wait();
  for (std::size_t at = 0; at < all.size(); at += sizeof(T))
    if (std::memcmp(all.data() + at, mine.data() + at % bytes, significant<T>) != 0) return false;
  return true;
}

/// Of very different sizes, so that every order of a sum gives other bits.
template <class T>
T number(const kerkis::Random& random, std::size_t i) {
  if constexpr (kerkis::comm::is_complex<T>) {
    using Real = typename T::value_type;
    return T(number<Real>(random, 2 * i), number<Real>(random, 2 * i + 1));
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(random.bits(i));
  } else {
    return static_cast<T>(random.normal(2 * i) * std::exp(3 * random.normal(2 * i + 1)));
  }
}

/// A user's: of two, the one with more bits, of equal ones the lower rank's.
template <class T>
struct MoreBits {
  static constexpr bool commutes = false;
  T operator()(const T& a, const T& b) const { return __builtin_popcount(b) > __builtin_popcount(a) ? b : a; }
};

template <class T>
std::vector<Reduction> reductions() {
  using enum Reduction;
  std::vector<Reduction> all;
  if (!std::is_same_v<T, bool>) all = {sum, product};
  if (std::is_integral_v<T> || std::is_floating_point_v<T> || kerkis::comm::is_half<T>)
    all.insert(all.end(), {minimum, maximum});
  if (std::is_integral_v<T>)
    all.insert(all.end(), {logical_and, logical_or, logical_xor, bitwise_and, bitwise_or, bitwise_xor});
  return all;
}

TEST_CASE_TEMPLATE("random numbers", T, float, double, long double, Kokkos::complex<float>, Kokkos::complex<double>,
                   kerkis::float16, kerkis::bfloat16, std::int8_t, std::uint8_t, std::int16_t, std::uint16_t,
                   std::int32_t, std::uint32_t, std::int64_t, std::uint64_t, char, bool) {
  const Communicator world(MPI_COMM_WORLD);
  const kerkis::Random random(11, static_cast<std::uint32_t>(world.rank()));
  for (const std::size_t count : {1u, 3u, 511u, 4096u, 30'001u})
    for (const Reduction reduction : reductions<T>()) {
      const View<T> view("view", count), from("from", count);
      for (std::size_t i = 0; i < count; ++i) view(i) = from(i) = number<T>(random, i);
      kerkis::all_reduce(Host(), world, view, {.operation = reduction}).wait();
      CAPTURE(count);
      CAPTURE(static_cast<int>(reduction));
      CHECK(same_everywhere(world, view));
      const View<T> to("to", count);
      kerkis::all_reduce(Host(), world, from, to, {.operation = reduction}).wait();
      CHECK(same_everywhere(world, to));
    }
}

TEST_CASE("a functor that does not commute") {
  const Communicator world(MPI_COMM_WORLD);
  const kerkis::Random random(12, static_cast<std::uint32_t>(world.rank()));
  for (const std::size_t count : {1u, 511u, 30'001u}) {
    const View<std::uint32_t> view("view", count);
    for (std::size_t i = 0; i < count; ++i) view(i) = number<std::uint32_t>(random, i);
    kerkis::all_reduce<MoreBits<std::uint32_t>>(Host(), world, view).wait();
    CHECK(same_everywhere(world, view));
  }
}

/// A key and who has it.
struct Owned {
  std::int32_t key, rank;
};
/// The largest key; of equal ones the lowest rank's, whichever comes first.
struct LargestOfLowest {
  static constexpr bool commutes = true;
  Owned operator()(const Owned& a, const Owned& b) const {
    return a.key < b.key || (a.key == b.key && b.rank < a.rank) ? b : a;
  }
};
/// The same since the left one is from the lower ranks.
struct LargestOfLeft {
  static constexpr bool commutes = false;
  Owned operator()(const Owned& a, const Owned& b) const { return a.key < b.key ? b : a; }
};

TEST_CASE_TEMPLATE("a functor with ties", Functor, LargestOfLowest, LargestOfLeft) {
  const Communicator world(MPI_COMM_WORLD);
  const auto key = [](int rank, std::size_t i) {
    return static_cast<std::int32_t>(kerkis::Random(13, static_cast<std::uint32_t>(rank)).bits(i) % 2);
  };
  for (const std::size_t count : {1u, 100u, 30'001u})
    for (const bool reproducible : {false, true}) {
      const View<Owned> view("view", count), from("from", count), to("to", count);
      for (std::size_t i = 0; i < count; ++i) view(i) = from(i) = {key(world.rank(), i), world.rank()};
      kerkis::all_reduce<Functor>(Host(), world, view, {.reproducible = reproducible}).wait();
      kerkis::all_reduce<Functor>(Host(), world, from, to, {.reproducible = reproducible}).wait();
      CHECK(same_everywhere(world, view));
      bool right = true;
      for (std::size_t i = 0; i < count; ++i) {
        int first = 0;
        for (int rank = 1; rank < world.size(); ++rank)
          if (key(rank, i) > key(first, i)) first = rank;
        right = right && view(i).rank == first && to(i).rank == first;
      }
      CHECK(right);
    }
}

TEST_CASE_TEMPLATE("minima and maxima of signed zeros, infinities and NaN", T, float, double, long double) {
  const Communicator world(MPI_COMM_WORLD);
  constexpr T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  constexpr T values[] = {T(0), T(-0.0), T(1), T(-1), infinity, -infinity, nan};
  std::size_t count = 1;  // all ways to give each rank one of the values
  for (int rank = 0; rank < world.size(); ++rank) count *= std::size(values);
  const auto value = [&](int rank, std::size_t i) {
    while (rank-- > 0) i /= std::size(values);
    return values[i % std::size(values)];
  };
  for (const bool minimum : {true, false})
    for (const bool reproducible : {false, true}) {
      const View<T> view("view", count);
      for (std::size_t i = 0; i < count; ++i) view(i) = value(world.rank(), i);
      kerkis::all_reduce(Host(), world, view,
                         {.operation = minimum ? Reduction::minimum : Reduction::maximum, .reproducible = reproducible})
          .wait();
      bool right = true;
      for (std::size_t i = 0; i < count; ++i) {
        T expected = value(0, i);
        for (int rank = 1; rank < world.size(); ++rank) {
          const T other = value(rank, i);
          const bool less = other < expected || (other == expected && std::signbit(other) && !std::signbit(expected));
          const bool greater =
              other > expected || (other == expected && !std::signbit(other) && std::signbit(expected));
          if (std::isnan(other) || (!std::isnan(expected) && (minimum ? less : greater))) expected = other;
        }
        right = right &&
                (std::isnan(expected) ? std::isnan(view(i)) : std::memcmp(&expected, &view(i), significant<T>) == 0);
      }
      CHECK(right);
      CHECK(same_everywhere(world, view));
    }
}

}  // namespace
