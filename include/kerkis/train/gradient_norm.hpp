// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <utility>

#include <kerkis/data_parallel/gradient_reducer.hpp>
#include <kerkis/module/parameter_store.hpp>

namespace kerkis {

namespace detail {
/// The sum of squares of one piece, in double and in sixteen parts that add up in a fixed order.
template <class T, class ExecutionSpace>
struct SquaresKernel {
  Kokkos::View<const ParameterPiece*, typename ExecutionSpace::memory_space> pieces;
  const T* gradients;
  double* sums;

  KOKKOS_FUNCTION void operator()(std::size_t p) const {
    const ParameterPiece piece = pieces(p);
    sums[p] = 0;
    if (!piece.counted) return;
    const T* const gradient = gradients + piece.begin;
    constexpr int lanes = 16;
    double part[lanes] = {};
    std::int64_t i = 0;
    for (; i + lanes <= piece.size; i += lanes)
      for (int lane = 0; lane < lanes; ++lane)
        part[lane] += static_cast<double>(gradient[i + lane]) * static_cast<double>(gradient[i + lane]);
    for (int lane = 0; i < piece.size; ++i, ++lane)
      part[lane] += static_cast<double>(gradient[i]) * static_cast<double>(gradient[i]);
    for (int lane = 0; lane < lanes; ++lane) sums[p] += part[lane];
  }
};
}  // namespace detail

/// The sum of squares of the gradients that this rank counts, the same bits for any number of threads. Added over the
/// tensor and pipeline axes it is that of the whole model. Fences `execution`. Allocates once.
template <class T, class ExecutionSpace = Kokkos::DefaultExecutionSpace>
class GradientSquares {
 public:
  /// For calls with this store.
  explicit GradientSquares(const ParameterStore<T, ExecutionSpace>& store)
      : sums_("kerkis::squares", store.pieces().extent(0)), host_(Kokkos::create_mirror_view(sums_)) {}

  /// Of the gradients of the store for which it was made.
  double operator()(const ExecutionSpace& execution, const ParameterStore<T, ExecutionSpace>& store,
                    const FinishedGradients&) const {
    Kokkos::parallel_for(
        "kerkis::squares", Kokkos::RangePolicy<ExecutionSpace>(execution, 0, store.pieces().extent(0)),
        detail::SquaresKernel<T, ExecutionSpace>{store.pieces(), store.gradients().data(), sums_.data()});
    Kokkos::deep_copy(execution, host_, sums_);
    execution.fence("kerkis::squares");
    double sum = 0;
    for (std::size_t p = 0; p < host_.extent(0); ++p) sum += host_(p);
    return sum;
  }

 private:
  Vector<double, ExecutionSpace> sums_;
  decltype(Kokkos::create_mirror_view(std::declval<const Vector<double, ExecutionSpace>&>())) host_;
};

}  // namespace kerkis
