// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <limits>

#include <kerkis/core/loss_sum.hpp>
#include <kerkis/core/partition.hpp>
#include <kerkis/device/lanes.hpp>
#include <kerkis/device/launch.hpp>
#include <kerkis/device/math.hpp>

namespace kerkis::device {

/// Cross entropy of softmax(logits) for int32 targets, negative ones ignored, where this rank holds the columns `slice`
/// of the logits. Softmax is split as e^(z - m) / s with each rank's own maximum m and sum s, so one exchange of (m, s,
/// target's logit) finishes both loss and gradient, and each logit is exponentiated once.
template <class T>
struct CrossEntropyRows {
  std::int64_t rows;  ///< one target each
  Range slice;        ///< of the vocabulary: the columns held here
  int ranks,          ///< that hold the columns together
      rank;           ///< this one of them
  T* logits;          ///< rows × slice.size(); e^(z - m) after `local` if `gradient`, softmax - onehot after `finish`
  const std::int32_t* targets;  ///< rows
  T* maxima;                    ///< ranks × rows: those of this rank, zeros elsewhere, until exchanged
  T* sums;                      ///< ranks × rows, likewise
  T* target_logits;             ///< rows; 0 unless this rank holds the target's column
  bool gradient;                ///< whether it is wanted; else the logits stay as they are

  /// Before the exchange: m, s and the target's logit of a row, as far as this rank knows them.
  KOKKOS_FORCEINLINE_FUNCTION void local(std::int64_t row) const {
    const std::int64_t columns = slice.size(), target = targets[row];
    T* const z = logits + row * columns;
    const T maximum = maximum_of<T>(columns, std::numeric_limits<T>::lowest(), [=](std::int64_t i) { return z[i]; });
    target_logits[row] = slice.contains(target) ? z[target - slice.begin] : T(0);
    T sum;
    if (gradient) {
      for (std::int64_t i = 0; i < columns; ++i) z[i] = exp(z[i] - maximum);
      sum = sum_of<T>(columns, [=](std::int64_t i) { return z[i]; });
    } else {
      sum = sum_of<T>(columns, [=](std::int64_t i) { return exp(z[i] - maximum); });
    }
    for (int r = 0; r < ranks; ++r) {
      maxima[r * rows + row] = r == rank ? maximum : T(0);
      sums[r * rows + row] = r == rank ? sum : T(0);
    }
  }

  /// After the exchange: adds the loss of a row to `loss`, in nats, and makes its gradient, zeros if it is ignored.
  KOKKOS_FORCEINLINE_FUNCTION void finish(std::int64_t row, LossSum& loss) const {
    const std::int64_t columns = slice.size(), target = targets[row];
    T* const z = logits + row * columns;
    if (target < 0) {
      if (gradient)
        for (std::int64_t i = 0; i < columns; ++i) z[i] = T(0);
      return;
    }
    T maximum = maxima[row];
    for (int r = 1; r < ranks; ++r) maximum = maxima[r * rows + row] > maximum ? maxima[r * rows + row] : maximum;
    T sum = 0;
    for (int r = 0; r < ranks; ++r) sum += sums[r * rows + row] * exp(maxima[r * rows + row] - maximum);
    loss +=
        {static_cast<double>(maximum) - static_cast<double>(target_logits[row]) + Kokkos::log(static_cast<double>(sum)),
         1.0};
    if (!gradient) return;
    const T scale = exp(maxima[rank * rows + row] - maximum) / sum;
    for (std::int64_t i = 0; i < columns; ++i) z[i] *= scale;
    if (slice.contains(target)) z[target - slice.begin] -= T(1);
  }
};

namespace detail {

template <class T>
struct CrossEntropyLocal {
  CrossEntropyRows<T> work;
  KOKKOS_FUNCTION void operator()(std::int64_t row) const { work.local(row); }
};

template <class T>
struct CrossEntropyFinish {
  CrossEntropyRows<T> work;
  bool alone;
  KOKKOS_FUNCTION void operator()(std::int64_t row, LossSum& loss) const {
    if (alone) work.local(row);
    work.finish(row, loss);
  }
};

}  // namespace detail

/// This rank's part, to be followed by the exchange of maxima, sums and target logits. Not needed if one rank holds all
/// columns.
template <class ExecutionSpace, class T>
void cross_entropy_local(const ExecutionSpace& execution, const CrossEntropyRows<T>& work) {
  launch("kerkis::ce_part", execution, work.rows, detail::CrossEntropyLocal<T>{work});
}

/// The sum of the losses, on the host (so it fences); with one rank both parts in one pass.
template <class ExecutionSpace, class T>
LossSum cross_entropy_finish(const ExecutionSpace& execution, const CrossEntropyRows<T>& work) {
  LossSum loss;
  if (work.rows > 0)
    Kokkos::parallel_reduce(
        "kerkis::ce", Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>(execution, 0, work.rows),
        detail::CrossEntropyFinish<T>{work, work.ranks == 1}, loss);
  return loss;
}

}  // namespace kerkis::device
