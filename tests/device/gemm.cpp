// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include <kerkis/core/error.hpp>
#include <kerkis/device/gemm.hpp>
#include <kerkis/module/matrix.hpp>

using namespace kerkis;

namespace {

using Space = Kokkos::DefaultHostExecutionSpace;
using device::Transpose;

template <class View>
void fill(const View& view, int seed) {
  for (std::size_t i = 0; i < view.extent(0); ++i)
    for (std::size_t j = 0; j < view.extent(1); ++j)
      view(i, j) = static_cast<typename View::value_type>((static_cast<int>(i * 31 + j * 17) + seed) % 23 - 11) / 8;
}

/// A matrix with gaps between its rows and NaN in them.
template <class T>
auto with_gaps(std::int64_t rows, std::int64_t columns) {
  const auto wide = make_matrix<T, Space>("wide", rows, columns + 5);
  Kokkos::deep_copy(wide, NAN);
  return Kokkos::subview(wide, Kokkos::ALL, Kokkos::make_pair(std::size_t{2}, static_cast<std::size_t>(2 + columns)));
}

template <class T>
void check(std::int64_t rows, std::int64_t columns, std::int64_t depth, bool ta, bool tb, T alpha, T beta) {
  const auto a = with_gaps<T>(ta ? depth : rows, ta ? rows : depth),
             b = with_gaps<T>(tb ? columns : depth, tb ? depth : columns);
  const auto c = with_gaps<T>(rows, columns);
  fill(a, 3);
  fill(b, 5);
  if (beta != 0) fill(c, 9);  // else NaN: C must not be read
  std::vector<double> expected;
  for (std::size_t i = 0; i < c.extent(0); ++i)
    for (std::size_t j = 0; j < c.extent(1); ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < static_cast<std::size_t>(depth); ++k)
        sum += static_cast<double>(ta ? a(k, i) : a(i, k)) * static_cast<double>(tb ? b(j, k) : b(k, j));
      expected.push_back(static_cast<double>(alpha) * sum +
                         (beta == 0 ? 0 : static_cast<double>(beta) * static_cast<double>(c(i, j))));
    }
  device::gemm(Space{}, ta ? Transpose::yes : Transpose::no, tb ? Transpose::yes : Transpose::no, alpha, a, b, beta, c);
  double worst = 0;
  for (std::size_t i = 0; i < c.extent(0); ++i)
    for (std::size_t j = 0; j < c.extent(1); ++j)
      worst = std::fmax(worst, std::abs(static_cast<double>(c(i, j)) - expected[i * c.extent(1) + j]));
  CHECK_MESSAGE(worst < (sizeof(T) == 4 ? 1e-4 : 1e-12),
                rows << " × " << columns << " × " << depth << ": off by " << worst);
  for (std::size_t i = 0; i < expected.size(); ++i)
    if (std::isnan(static_cast<double>(c(i / c.extent(1), i % c.extent(1))))) FAIL("NaN");
}

}  // namespace

TEST_CASE_TEMPLATE("products of any form and size", T, float, double) {
  const std::int64_t sizes[][3] = {{1, 1, 1},    {3, 5, 7},    {8, 8, 8},     {16, 16, 8}, {17, 33, 9},
                                   {5, 20, 256}, {9, 12, 257}, {0, 4, 4},     {4, 0, 4},   {4, 5, 0},
                                   {64, 96, 32}, {33, 7, 70},  {300, 300, 50}};
  for (const auto& size : sizes)
    for (const bool ta : {false, true})
      for (const bool tb : {false, true}) {
        check<T>(size[0], size[1], size[2], ta, tb, T(1), T(0));
        check<T>(size[0], size[1], size[2], ta, tb, T(1), T(1));
        check<T>(size[0], size[1], size[2], ta, tb, T(0.5), T(-2));
      }
}

TEST_CASE_TEMPLATE("an element of a small product does not depend on its place", T, float, double) {
  const std::int64_t rows = 23, columns = 45, depth = 31;
  const auto a = make_matrix<T, Space>("a", rows, depth), b = make_matrix<T, Space>("b", depth, columns),
             c = make_matrix<T, Space>("c", rows, columns);
  fill(a, 1);
  fill(b, 2);
  for (std::size_t i = 0; i < a.size(); ++i) a.data()[i] /= T(3);
  device::small_product<T>(rows, columns, depth, {a.data(), depth, 1}, {b.data(), columns, 1}, c.data(), columns,
                           false);
  for (std::int64_t j = 0; j < columns; ++j) {
    T one = 0;
    device::small_product<T>(1, 1, depth, {a.data() + 20 * depth, depth, 1}, {b.data() + j, columns, 1}, &one, 1,
                             false);
    CHECK(one == c(20, static_cast<std::size_t>(j)));
  }
}

// On a GPU, cuBLAS and the plain kernel.
TEST_CASE_TEMPLATE("the default execution space makes the same products", T, float, double) {
  using Device = Kokkos::DefaultExecutionSpace;
  device::DeviceBlas<Device> blas;
  for (const bool ta : {false, true})
    for (const bool tb : {false, true}) {
      const auto form = [](bool transposed) { return transposed ? Transpose::yes : Transpose::no; };
      const auto a = make_matrix<T, Space>("a", ta ? 19 : 33, ta ? 33 : 19),
                 b = make_matrix<T, Space>("b", tb ? 70 : 19, tb ? 19 : 70), c = make_matrix<T, Space>("c", 33, 70);
      fill(a, 3);
      fill(b, 5);
      fill(c, 9);
      const typename Device::memory_space memory;
      for (auto* chosen : {&blas, static_cast<device::DeviceBlas<Device>*>(nullptr)}) {
        const auto device_a = Kokkos::create_mirror_view_and_copy(memory, a),
                   device_b = Kokkos::create_mirror_view_and_copy(memory, b),
                   device_c = Kokkos::create_mirror(Kokkos::WithoutInitializing, memory, c);
        Kokkos::deep_copy(device_c, c);
        device::gemm(Device{}, form(ta), form(tb), T(0.5), device_a, device_b, T(-2), device_c, chosen);
        const auto expected = make_matrix<T, Space>("expected", 33, 70), got = make_matrix<T, Space>("got", 33, 70);
        Kokkos::deep_copy(expected, c);
        device::gemm(Space{}, form(ta), form(tb), T(0.5), a, b, T(-2), expected);
        Kokkos::deep_copy(got, device_c);
        for (std::size_t i = 0; i < got.size(); ++i)
          CHECK(got.data()[i] == doctest::Approx(expected.data()[i]).epsilon(1e-5));
      }
    }
}

TEST_CASE("what does not fit is refused") {
  const auto a = make_matrix<float, Space>("a", 2, 3), b = make_matrix<float, Space>("b", 4, 5),
             c = make_matrix<float, Space>("c", 2, 5);
  CHECK_THROWS_WITH_AS(device::gemm(Space{}, Transpose::no, Transpose::no, 1.0f, a, b, 0.0f, c),
                       "a matrix product of 2 × 3 and 4 × 5 does not fit into 2 × 5", InputError);
  // Beyond the extents of CBLAS; nothing is touched.
  const volatile std::int64_t many = std::int64_t{1} << 31;
  float x = 0;
  CHECK_THROWS_AS(device::gemm(Space{}, Transpose::no, Transpose::no, many, 1, 1, 1.0f, &x, 1, &x, 1, 0.0f, &x, 1),
                  InputError);
}
