// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include <kerkis/core/error.hpp>
#include <kerkis/core/partition.hpp>

namespace kerkis {

/// What the layers of a model cost, in any unit, for spreading them over the stages of a pipeline.
struct LayerCosts {
  std::vector<double> layers = {};  ///< one per layer; empty: all layers alike, and what is around them for nothing
  double before = 0;                ///< of what the first stage does besides (the embedding)
  double after = 0;                 ///< of what the last stage does besides (the head)
};

namespace detail {

/// Stages of neighbouring layers and what they cost.
class CostedStages {
 public:
  CostedStages(const LayerCosts& costs, int stages)
      : costs_(costs), stages_(static_cast<std::size_t>(stages)), layers_(costs.layers.size()), sums_(layers_ + 1) {
    for (std::size_t layer = 0; layer < layers_; ++layer) sums_[layer + 1] = sums_[layer] + costs.layers[layer];
  }

  /// The layers [begin, end) as a stage.
  double cost(std::size_t stage, std::size_t begin, std::size_t end) const {
    return sums_[end] - sums_[begin] + (stage == 0 ? costs_.before : 0) + (stage + 1 == stages_ ? costs_.after : 0);
  }

  /// The least that the largest stage can cost. Of the layers before a stage, more make the stage cheaper and the
  /// stages before it dearer: the best number is where the two meet.
  double least() const {
    std::vector<double> least(layers_ + 1), before(layers_ + 1);
    for (std::size_t end = 0; end <= layers_; ++end) least[end] = cost(0, 0, end);
    for (std::size_t stage = 1; stage < stages_; ++stage) {
      std::swap(least, before);
      for (std::size_t end = 0; end <= layers_; ++end) {
        std::size_t low = 0, high = end;  // the first number with which the stages before are no cheaper
        while (low < high) {
          const std::size_t middle = (low + high) / 2;
          if (before[middle] >= cost(stage, middle, end))
            high = middle;
          else
            low = middle + 1;
        }
        least[end] = std::max(before[low], cost(stage, low, end));
        if (low > 0) least[end] = std::min(least[end], std::max(before[low - 1], cost(stage, low - 1, end)));
      }
    }
    return least[layers_];
  }

  /// Where each stage begins, so that none costs more than `limit` and the sum of squares is least.
  std::vector<Range> evenest(double limit) const {
    constexpr double rounding = 1e-12, never = std::numeric_limits<double>::infinity();
    limit *= 1 + rounding;
    std::vector<double> squares(layers_ + 1, never), before(layers_ + 1, never);
    std::vector<std::vector<std::size_t>> begins(stages_, std::vector<std::size_t>(layers_ + 1));
    before[0] = 0;
    for (std::size_t stage = 0; stage < stages_; ++stage) {
      for (std::size_t end = 0; end <= layers_; ++end) {
        squares[end] = never;
        for (std::size_t begin = end + 1; begin-- > 0;) {
          const double here = cost(stage, begin, end);
          if (here > limit) break;
          if (before[begin] + here * here >= squares[end] * (1 - rounding)) continue;  // earlier stages are the larger
          squares[end] = before[begin] + here * here;
          begins[stage][end] = begin;
        }
      }
      std::swap(squares, before);
    }
    std::vector<Range> ranges(stages_);
    std::size_t end = layers_;
    for (std::size_t stage = stages_; stage-- > 0;) {
      const std::size_t begin = begins[stage][end];
      ranges[stage] = {static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)};
      end = begin;
    }
    return ranges;
  }

 private:
  const LayerCosts& costs_;
  std::size_t stages_, layers_;
  std::vector<double> sums_;  // of the first layers
};

}  // namespace detail

/// The layers of each stage, contiguous and in order, so that the largest stage costs as little as can be; of such
/// partitions one with the least sum of squares, with the larger stages first where that says nothing. Stages may be
/// empty. Without costs the layers are spread by `partition`. Exact, and the same everywhere for the same numbers.
/// Throws InputError for a cost that is negative or not finite, or costs of another number of layers.
inline std::vector<Range> layers_to_stages(std::int64_t layers, int stages, const LayerCosts& costs) {
  require(layers >= 0 && stages >= 1, layers, " layers over ", stages, " stages");
  if (costs.layers.empty()) {
    std::vector<Range> ranges;
    for (int stage = 0; stage < stages; ++stage) ranges.push_back(partition(layers, stages, stage));
    return ranges;
  }
  require(static_cast<std::int64_t>(costs.layers.size()) == layers, "costs of ", costs.layers.size(), " layers for ",
          layers);
  const auto check = [](double cost) {
    require(std::isfinite(cost) && cost >= 0, "a layer that costs ", cost, ": costs are finite and not below 0");
  };
  check(costs.before), check(costs.after);
  for (const double cost : costs.layers) check(cost);
  const detail::CostedStages work(costs, stages);
  return work.evenest(work.least());
}

}  // namespace kerkis
