// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <kerkis/optim/learning_rate.hpp>

namespace {

using kerkis::optim::WarmupCosine;

TEST_CASE("warm-up is linear and ends at 1, then half a cosine goes down to the floor") {
  const WarmupCosine rate{.warmup = 4, .steps = 12, .floor = 0.2};
  CHECK(rate(0) == 0.25);
  CHECK(rate(1) == 0.5);
  CHECK(rate(3) == 1);
  CHECK(rate(4) == 1);
  CHECK(rate(8) == doctest::Approx(0.6));  // half-way
  CHECK(rate(6) == doctest::Approx(0.2 + 0.4 * (1 + std::sqrt(0.5))));
  CHECK(rate(12) == 0.2);
  CHECK(rate(1000) == 0.2);
  for (int step = 4; step < 12; ++step) CHECK(rate(step + 1) < rate(step));
}

TEST_CASE("no warm-up, only warm-up, one step") {
  const WarmupCosine none{.warmup = 0, .steps = 10, .floor = 0};
  CHECK(none(0) == 1);
  CHECK(none(5) == doctest::Approx(0.5));
  CHECK(none(10) == 0);
  const WarmupCosine longer{.warmup = 10, .steps = 5};
  CHECK(longer(4) == 0.5);
  CHECK(longer(9) == 1);
  CHECK(longer(10) == 0.1);
  CHECK(WarmupCosine{}(0) == 1);
}

}  // namespace
