// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string_view>

namespace kerkis {

/// The axes along which work is spread. The set is open: a policy brings its own axis type, with a name and a distance.
/// Ranks that are neighbours on the axis of least distance are neighbours in the communicator.
namespace axis {
/// Of TensorParallel.
struct Tensor {
  static constexpr std::string_view name = "tensor";
  static constexpr int distance = 0;  ///< the least: its ranks are neighbours
};
/// Of DataParallel.
struct Data {
  static constexpr std::string_view name = "data";
  static constexpr int distance = 10;  ///< between the other two
};
/// Of kerkis::Pipeline.
struct Pipeline {
  static constexpr std::string_view name = "pipeline";
  static constexpr int distance = 20;  ///< the largest
};
}  // namespace axis

/// The run-time extent of an axis whose policy leaves it dynamic.
template <class Axis>
struct AxisExtent {
  std::size_t value;  ///< ranks
};
/// For Mesh: the data axis has so many ranks.
constexpr AxisExtent<axis::Data> data(std::size_t extent) { return {extent}; }
/// For Mesh: the tensor axis has so many ranks.
constexpr AxisExtent<axis::Tensor> tensor(std::size_t extent) { return {extent}; }
/// For Mesh: the pipeline has so many ranks.
constexpr AxisExtent<axis::Pipeline> pipeline(std::size_t extent) { return {extent}; }

}  // namespace kerkis
