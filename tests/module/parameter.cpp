// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <kerkis/module/parameter.hpp>

#include <vector>

namespace {

using kerkis::Initial;
using kerkis::partition;
using Parameter = kerkis::Parameter<float>;

TEST_CASE("slices of any dimension are a partition of the whole tensor") {
  const std::vector<std::int64_t> shape = {5, 4, 3};
  for (std::size_t dimension = 0; dimension < shape.size(); ++dimension) {
    for (std::int64_t parts = 1; parts <= 6; ++parts) {
      CAPTURE(dimension);
      CAPTURE(parts);
      std::vector<int> seen(60);
      for (std::int64_t part = 0; part < parts; ++part) {
        const auto parameter = Parameter::sliced("w", shape, dimension, partition(shape[dimension], parts, part),
                                                 Initial::normal(1), true);
        CHECK(parameter.global_size() == 60);
        CHECK_FALSE(parameter.replicated);
        std::int64_t before = -1;
        for (std::int64_t i = 0; i < parameter.size(); ++i) {
          const std::int64_t global = parameter.global_index(i);
          CHECK(global > before);
          before = global;
          ++seen.at(static_cast<std::size_t>(global));
        }
      }
      CHECK(seen == std::vector<int>(60, 1));
    }
  }
}

TEST_CASE("global indices are row-major") {
  const auto columns = Parameter::sliced("w", {2, 6}, 1, {2, 5}, Initial::constant(0), true);
  const std::vector<std::int64_t> expected = {2, 3, 4, 8, 9, 10};
  CHECK(columns.size() == 6);
  for (std::size_t i = 0; i < expected.size(); ++i)
    CHECK(columns.global_index(static_cast<std::int64_t>(i)) == expected[i]);
}

TEST_CASE("a whole parameter") {
  const auto whole = Parameter::whole("b", {7}, Initial::constant(2), false);
  CHECK(whole.replicated);
  CHECK(whole.counted);
  CHECK_FALSE(whole.decays);
  CHECK(whole.size() == 7);
  CHECK(whole.global_index(6) == 6);
}

}  // namespace
