// SPDX-License-Identifier: Apache-2.0
#pragma once

// Views of many kinds, and plain loops over them in the order in which elements go to other ranks.

#include <Kokkos_Core.hpp>
#include <array>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <vector>

namespace views {

using Host = Kokkos::DefaultHostExecutionSpace;
template <class Data, class Layout>
using Of = Kokkos::View<Data, Layout, Kokkos::HostSpace>;

/// Calls f(element) for all elements, by nothing but extents and strides.
template <class View, class F>
void in_order(const View& view, F&& f) {
  constexpr bool first_fastest = std::is_same_v<typename View::array_layout, Kokkos::LayoutLeft>;
  constexpr std::size_t rank = View::rank;
  std::array<std::size_t, 9> index{};
  for (std::size_t n = 0; n < view.size(); ++n) {
    std::size_t offset = 0;
    for (std::size_t d = 0; d < rank; ++d) offset += index[d] * view.stride(d);
    f(view.data()[offset]);
    for (std::size_t i = 0; i < rank; ++i) {
      const std::size_t d = first_fastest ? i : rank - 1 - i;
      if (++index[d] < view.extent(d)) break;
      index[d] = 0;
    }
  }
}

/// An element of any type made from a number: different for the first few hundred numbers (except bool).
template <class T>
T element(std::size_t number) {
  if constexpr (std::is_same_v<T, bool>) {
    return number % 3 == 1;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(number % 113);
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(number % 4096) / 4;
  } else if constexpr (std::is_constructible_v<T, float> && sizeof(T) == 2) {
    return T(static_cast<float>(number % 256));
  } else {
    T value;
    std::vector<unsigned char> bytes(sizeof(T));
    for (std::size_t i = 0; i < sizeof(T); ++i) bytes[i] = static_cast<unsigned char>((number * 7 + i) % 113);
    std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof(T));
    return value;
  }
}

template <class T>
bool same(const T& a, const T& b) {
  if constexpr (std::is_same_v<T, long double>)
    return a == b;
  else
    return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class View>
void fill(const View& view, std::size_t first) {
  in_order(view, [&](auto& value) { value = element<typename View::value_type>(first++); });
}

/// Whether the View holds the numbers from `first` on; how many do not.
template <class View>
std::size_t wrong(const View& view, std::size_t first) {
  std::size_t count = 0;
  in_order(view, [&](const auto& value) {
    count += same(value, element<typename View::non_const_value_type>(first++)) ? 0u : 1u;
  });
  return count;
}

/// Calls f(view, whole) with Views of several kinds, and the View whose memory they are in.
template <class T, class F>
void some(F&& f) {
  using Kokkos::ALL;
  using Kokkos::subview;
  const auto range = [](int a, int b) { return Kokkos::pair<int, int>(a, b); };
  {
    const Of<T, Kokkos::LayoutRight> scalar("scalar");
    f(scalar, scalar);
  }
  {
    const Of<T**, Kokkos::LayoutRight> m("m", 9, 11);
    f(m, m);
    f(subview(m, ALL, 3), m);
    f(subview(m, range(2, 2), range(3, 9)), m);
    f(subview(m, range(2, 7), range(3, 9)), m);
  }
  {
    const Of<T***, Kokkos::LayoutLeft> m("m", 4, 6, 5);
    f(subview(m, range(1, 3), range(2, 5), range(1, 4)), m);
  }
}

/// The same with ranks 0 to 8, and all layouts.
template <class T, class F>
void families(F&& f) {
  using Kokkos::ALL;
  using Kokkos::subview;
  using Left = Kokkos::LayoutLeft;
  using Right = Kokkos::LayoutRight;
  const auto range = [](int a, int b) { return Kokkos::pair<int, int>(a, b); };
  const auto both = [&](const auto& view) { f(view, view); };
  some<T>(f);
  both(Of<T*, Right>("none", 0));
  both(Of<T*, Right>("one", 1));
  both(Of<T*, Left>("odd", 37));
  both(Of<T**, Right>("matrix", 5, 7));
  both(Of<T**, Left>("matrix", 5, 7));
  both(Of<T**, Right>("no columns", 5, 0));
  both(Of<T*** [2], Left>("four", 3, 1, 4));
  {
    const Of<T**, Right> m("m", 9, 11);
    f(subview(m, ALL, 3), m);
    f(subview(m, 4, ALL), m);
    f(subview(m, range(2, 7), range(3, 9)), m);
    f(subview(m, range(2, 2), range(3, 9)), m);
    f(subview(m, range(2, 7), 5), m);
    f(subview(m, 1, 1), m);
  }
  {
    const Of<T**, Left> m("m", 9, 11);
    f(subview(m, ALL, 3), m);
    f(subview(m, 4, ALL), m);
    f(subview(m, range(2, 7), range(3, 9)), m);
    f(subview(m, range(2, 3), ALL), m);
  }
  {
    const Of<T***, Right> m("m", 4, 6, 5);
    f(subview(m, ALL, ALL, 2), m);
    f(subview(m, ALL, 2, ALL), m);
    f(subview(m, 2, ALL, ALL), m);
    f(subview(m, range(1, 3), range(2, 5), range(1, 4)), m);
    f(subview(m, ALL, range(2, 5), ALL), m);
  }
  {  // a transposed matrix, and rows of which every second is left out
    const Of<T*, Right> m("m", 200);
    using Stride = Kokkos::View<T**, Kokkos::LayoutStride, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;
    f(Stride(m.data(), Kokkos::LayoutStride(13, 1, 15, 13)), m);
    f(Stride(m.data(), Kokkos::LayoutStride(5, 40, 8, 2)), m);
    f(Stride(m.data(), Kokkos::LayoutStride(10, 20, 20, 1)), m);
  }
  {
    const Of<T********, Right> m("m", 2, 3, 2, 1, 3, 2, 2, 3);
    both(m);
    f(subview(m, ALL, range(0, 2), ALL, ALL, range(1, 3), ALL, 1, range(0, 2)), m);
  }
  {
    const Of<T********, Left> m("m", 2, 3, 2, 1, 3, 2, 2, 3);
    f(subview(m, ALL, range(0, 2), ALL, ALL, range(1, 3), ALL, ALL, range(0, 2)), m);
  }
}

}  // namespace views
