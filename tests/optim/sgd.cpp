// SPDX-License-Identifier: Apache-2.0
#include <kerkis/optim/sgd.hpp>
#include <optim/harness.hpp>

namespace {

TEST_CASE_TEMPLATE("SGD, with and without momentum and decay", T, float, double) {
  for (const double momentum : {0.0, 0.9}) {
    for (const double decay : {0.0, 0.2}) {
      const kerkis::optim::Sgd settings{.momentum = momentum, .weight_decay = decay};
      CAPTURE(momentum);
      CAPTURE(decay);
      check_steps<T>(settings,
                     [&](double& value, double(&memory)[2], double gradient, bool decays, int, double learning_rate) {
                       memory[0] = momentum * memory[0] + gradient + (decays ? decay * value : 0);
                       value -= learning_rate * memory[0];
                     });
    }
  }
}

}  // namespace
