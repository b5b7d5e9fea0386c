// SPDX-License-Identifier: Apache-2.0
// Sums of random numbers, and minima and maxima of the values that MPI leaves open, have the same bits on every rank.
#include <doctest/doctest.h>
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/core/philox.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace {

using kerkis::Communicator;
using kerkis::Reduction;
using Host = Kokkos::DefaultHostExecutionSpace;
template <class T>
using View = Kokkos::View<T*, Kokkos::HostSpace>;

/// Whether all ranks hold the same bytes.
template <class T>
bool same_everywhere(const Communicator& world, const View<T>& view) {
  const std::size_t bytes = view.size() * sizeof(T);
  const View<std::uint8_t> mine("mine", bytes), all("all", bytes * static_cast<std::size_t>(world.size()));
  std::memcpy(mine.data(), view.data(), bytes);
  kerkis::all_gather(Host(), world, mine, all).wait();
  for (int rank = 0; rank < world.size(); ++rank)
    if (std::memcmp(all.data() + static_cast<std::size_t>(rank) * bytes, mine.data(), bytes) != 0) return false;
  return true;
}

TEST_CASE_TEMPLATE("sums", T, float, double) {
  const Communicator world(MPI_COMM_WORLD);
  for (const std::size_t count : {1, 3, 511, 4096, 100'001}) {
    const View<T> view("view", count);
    const kerkis::Random random(11, static_cast<std::uint32_t>(world.rank()));
    for (std::size_t i = 0; i < count; ++i)
      view(i) = static_cast<T>(random.normal(i) * std::exp(10 * random.normal(i + count)));
    kerkis::all_reduce(Host(), world, view).wait();
    CAPTURE(count);
    CHECK(same_everywhere(world, view));
  }
}

TEST_CASE_TEMPLATE("minima and maxima of signed zeros, infinities and NaN", T, float, double) {
  const Communicator world(MPI_COMM_WORLD);
  constexpr T infinity = std::numeric_limits<T>::infinity(), nan = std::numeric_limits<T>::quiet_NaN();
  constexpr T values[] = {T(0), T(-0.0), T(1), T(-1), infinity, -infinity, nan};
  std::size_t count = 1;  // all ways to give each rank one of the values
  for (int rank = 0; rank < world.size(); ++rank) count *= std::size(values);
  const auto value = [&](int rank, std::size_t i) {
    while (rank-- > 0) i /= std::size(values);
    return values[i % std::size(values)];
  };
  for (const bool minimum : {true, false}) {
    const View<T> view("view", count);
    for (std::size_t i = 0; i < count; ++i) view(i) = value(world.rank(), i);
    kerkis::all_reduce(Host(), world, view, {.operation = minimum ? Reduction::minimum : Reduction::maximum}).wait();
    bool right = true;
    for (std::size_t i = 0; i < count; ++i) {
      T expected = value(0, i);
      for (int rank = 1; rank < world.size(); ++rank) {
        const T other = value(rank, i);
        const bool less = other < expected || (other == expected && std::signbit(other) && !std::signbit(expected));
        const bool greater = other > expected || (other == expected && !std::signbit(other) && std::signbit(expected));
        if (std::isnan(other) || (!std::isnan(expected) && (minimum ? less : greater))) expected = other;
      }
      right = right && (std::isnan(expected) ? std::isnan(view(i)) : std::memcmp(&expected, &view(i), sizeof(T)) == 0);
    }
    CHECK(right);
    CHECK(same_everywhere(world, view));
  }
}

}  // namespace
