// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kerkis/policy/axis.hpp>
#include <kerkis/policy/extent.hpp>

namespace kerkis {

/// The matrices of each layer are spread over the ranks of the axis: Shoeybi et al. 2019, "Megatron-LM",
/// arXiv:1909.08053. No options yet.
template <std::size_t N = dynamic, class... Options>
struct TensorParallel {
  static_assert(N != 0, "kerkis: TensorParallel<0>: an axis needs at least one rank");
  static_assert(sizeof...(Options) == 0, "kerkis: TensorParallel takes no options");

  using axis = kerkis::axis::Tensor;
  static constexpr std::size_t extent = N;  ///< ranks, or `dynamic`
};

}  // namespace kerkis
