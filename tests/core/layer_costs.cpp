// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <vector>

#include <kerkis/core/layer_costs.hpp>

namespace kk = kerkis;

namespace {

struct Quality {
  double largest = 0, squares = 0;
};

double cost(const kk::LayerCosts& costs, std::size_t stage, std::size_t stages, kk::Range range) {
  double sum = (stage == 0 ? costs.before : 0) + (stage + 1 == stages ? costs.after : 0);
  for (std::int64_t layer = range.begin; layer < range.end; ++layer)
    sum += costs.layers[static_cast<std::size_t>(layer)];
  return sum;
}

Quality judge(const kk::LayerCosts& costs, const std::vector<kk::Range>& ranges) {
  Quality quality;
  for (std::size_t stage = 0; stage < ranges.size(); ++stage) {
    const double here = cost(costs, stage, ranges.size(), ranges[stage]);
    quality.largest = std::max(quality.largest, here);
    quality.squares += here * here;
  }
  return quality;
}

/// Tries every partition.
Quality best(const kk::LayerCosts& costs, std::size_t stages) {
  const auto layers = static_cast<std::int64_t>(costs.layers.size());
  Quality least{std::numeric_limits<double>::infinity(), 0};
  std::vector<kk::Range> ranges(stages);
  const std::function<void(std::size_t, std::int64_t)> place = [&](std::size_t stage, std::int64_t begin) {
    if (stage + 1 == stages) {
      ranges[stage] = {begin, layers};
      const Quality here = judge(costs, ranges);
      if (here.largest < least.largest - 1e-9 || (here.largest < least.largest + 1e-9 && here.squares < least.squares))
        least = here;
      return;
    }
    for (std::int64_t end = begin; end <= layers; ++end) {
      ranges[stage] = {begin, end};
      place(stage + 1, end);
    }
  };
  place(0, 0);
  return least;
}

}  // namespace

TEST_CASE("as good as the best of all partitions") {
  std::mt19937 random(1);
  for (int trial = 0; trial < 400; ++trial) {
    kk::LayerCosts costs;
    const std::size_t layers = 1 + random() % 8, stages = 1 + random() % 5;
    for (std::size_t layer = 0; layer < layers; ++layer)
      costs.layers.push_back(trial % 3 == 0 ? 1 : static_cast<double>(random() % 1000) / 100);
    costs.before = static_cast<double>(random() % 300) / 100;
    costs.after = static_cast<double>(random() % 900) / 100;
    const auto ranges = kk::layers_to_stages(static_cast<std::int64_t>(layers), static_cast<int>(stages), costs);
    REQUIRE(ranges.size() == stages);
    std::int64_t next = 0;
    for (const kk::Range& range : ranges) {
      CHECK(range.begin == next);
      CHECK(range.end >= range.begin);
      next = range.end;
    }
    CHECK(next == static_cast<std::int64_t>(layers));
    const Quality ours = judge(costs, ranges), expected = best(costs, stages);
    CHECK(ours.largest == doctest::Approx(expected.largest).epsilon(1e-9));
    CHECK(ours.squares <= expected.squares * (1 + 1e-9));
  }
}

TEST_CASE("without costs, and with equal ones, layers are spread evenly") {
  for (const int stages : {1, 2, 3, 7, 12}) {
    for (const std::int64_t layers : {1, 5, 12}) {
      const auto even = kk::layers_to_stages(layers, stages, {});
      const auto equal =
          kk::layers_to_stages(layers, stages, {.layers = std::vector<double>(static_cast<std::size_t>(layers), 2.5)});
      for (int stage = 0; stage < stages; ++stage) {
        CHECK(even[static_cast<std::size_t>(stage)] == kk::partition(layers, stages, stage));
        CHECK(equal[static_cast<std::size_t>(stage)] == kk::partition(layers, stages, stage));
      }
    }
  }
}

TEST_CASE("a thousand layers over a hundred stages") {
  kk::LayerCosts costs{.layers = std::vector<double>(1000, 1), .before = 3, .after = 8.5};
  const auto ranges = kk::layers_to_stages(1000, 100, costs);
  CHECK(judge(costs, ranges).largest == doctest::Approx(11));
  CHECK(ranges.back().size() <= 2);
}

TEST_CASE("costs that make no sense") {
  CHECK_THROWS_AS(kk::layers_to_stages(2, 2, {.layers = {1, 2, 3}}), kk::InputError);
  CHECK_THROWS_AS(kk::layers_to_stages(2, 2, {.layers = {1, -1}}), kk::InputError);
  CHECK_THROWS_AS(kk::layers_to_stages(2, 2, {.layers = {1, std::numeric_limits<double>::quiet_NaN()}}),
                  kk::InputError);
  CHECK_THROWS_AS(kk::layers_to_stages(2, 2, {.layers = {1, 1}, .before = -2}), kk::InputError);
  CHECK_THROWS_AS(kk::layers_to_stages(2, 0, {}), kk::InputError);
}
