// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: communication takes Views of LayoutLeft, LayoutRight or LayoutStride
#include <kerkis/comm/pack.hpp>

/// Of a library of one's own: Kokkos has no fourth layout to take.
struct Tiles {};

/// What is asked of a View.
struct Tiled {
#if KERKIS_MISTAKE == 1
  using array_layout = Tiles;
#else
  using array_layout = Kokkos::LayoutRight;
#endif
  static constexpr std::size_t rank = 2;
  std::size_t extent(std::size_t) const { return 8; }
  std::size_t stride(std::size_t i) const { return i == 0 ? 8 : 1; }
};

kerkis::comm::Shape shape = kerkis::comm::shape_of(Tiled());
