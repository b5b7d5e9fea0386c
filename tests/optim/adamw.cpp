// SPDX-License-Identifier: Apache-2.0
#include <kerkis/optim/adamw.hpp>
#include <optim/harness.hpp>

namespace {

TEST_CASE_TEMPLATE("AdamW is what its paper says", T, float, double) {
  for (const double decay : {0.0, 0.1}) {
    const kerkis::optim::AdamW settings{.beta1 = 0.8, .beta2 = 0.95, .epsilon = 1e-6, .weight_decay = decay};
    check_steps<T>(
        settings, [&](double& value, double(&memory)[2], double gradient, bool decays, int step, double learning_rate) {
          auto& [first, second] = memory;
          first = settings.beta1 * first + (1 - settings.beta1) * gradient;
          second = settings.beta2 * second + (1 - settings.beta2) * gradient * gradient;
          const double mean = first / (1 - std::pow(settings.beta1, step)),
                       square = second / (1 - std::pow(settings.beta2, step));
          value -= learning_rate *
                   (mean / (std::sqrt(square) + settings.epsilon) + (decays ? settings.weight_decay * value : 0));
        });
  }
}

TEST_CASE("the defaults are those of the model that the library is proven with") {
  const kerkis::optim::AdamW settings;
  CHECK(settings.beta1 == 0.9);
  CHECK(settings.beta2 == 0.95);
  CHECK(settings.epsilon == 1e-8);
  CHECK(settings.weight_decay == 0.1);
}

}  // namespace
