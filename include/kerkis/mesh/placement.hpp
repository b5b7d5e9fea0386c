// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

#include <kerkis/policy/hybrid.hpp>

namespace kerkis {

/// An explicit placement: ranks that differ only on the first axis are neighbours in the communicator. Axes that the
/// plan has and the list lacks follow by distance.
template <class... Axes>
struct Placement {};

namespace mesh {

/// The place of `Axis` in a Placement: its index, or the number of axes given plus its own distance.
template <class Axis, class... Axes>
constexpr int place(Placement<Axes...>) {
  int index = 0, found = -1;
  ((std::is_same_v<Axis, Axes> ? void(found = index) : void(), ++index), ...);
  return found >= 0 ? found : static_cast<int>(sizeof...(Axes)) + Axis::distance;
}

}  // namespace mesh
}  // namespace kerkis
