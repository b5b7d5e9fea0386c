// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <doctest/doctest.h>
#include <kerkis/core/philox.hpp>
#include <kerkis/data_parallel/gradient_reducer.hpp>
#include <module/model.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

/// Runs five steps of `Optimizer` on every parameter, and with each a scalar reference in double, `reference(value,
/// gradient, decays, step, element's own memory)`, on rounded inputs. Checks values, that gradients are zero after, and
/// that padding stays zero.
template <class T, class Optimizer, class Reference>
void check_steps(const Optimizer& settings, Reference&& reference) {
  using Host = Kokkos::DefaultHostExecutionSpace;
  struct Element {
    double value = 0;
    double memory[2] = {0, 0};
  };
  auto model = Model<T>::make(0, 1);
  const kerkis::ParameterStore<T, Host> store(model, 0);
  store.initialise(3);
  typename Optimizer::template State<T, Host> state(store);
  kerkis::GradientReducer<T, Host> reducer(kerkis::Communicator(), store, {}, 1000);
  std::vector<Element> elements(store.values().extent(0));
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i].value = static_cast<double>(store.values()(i));

  constexpr double scale = 0.25;
  for (int step = 1; step <= 5; ++step) {
    const double learning_rate = 0.01 / step;
    double worst = 0;
    for (const auto& parameter : model.list) {
      const auto offset = static_cast<std::size_t>(store.offset(parameter));
      for (std::size_t i = 0; i < parameter.gradient.extent(0); ++i) {
        const T gradient = static_cast<T>(
            i % 5 == 0
                ? 0
                : kerkis::Random(9, kerkis::stream_of(parameter.name), static_cast<std::uint32_t>(step)).normal(i));
        parameter.gradient(i) = gradient;
        Element& element = elements[offset + i];
        reference(element.value, element.memory, scale * static_cast<double>(gradient), parameter.decays, step,
                  learning_rate);
      }
    }
    const auto finished = reducer.finish(Host());
    state.step(Host(), settings, store, finished, scale, learning_rate);
    Host().fence();
    bool zero = true;
    for (std::size_t i = 0; i < elements.size(); ++i) {
      worst = std::max(worst, std::abs(static_cast<double>(store.values()(i)) - elements[i].value));
      zero = zero && store.gradients()(i) == 0;
    }
    CAPTURE(step);
    CHECK(worst < 20 * static_cast<double>(std::numeric_limits<T>::epsilon()));
    CHECK(zero);
  }
  for (const auto& parameter : model.list)
    for (auto i = store.offset(parameter) + parameter.size(); i % 32 != 0; ++i)
      CHECK(store.values()(static_cast<std::size_t>(i)) == 0);
}
