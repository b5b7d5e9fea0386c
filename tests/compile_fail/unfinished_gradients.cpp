// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: kerkis: GradientReducer::finish.. returns it, when all sums are done
#include <kerkis/data_parallel/gradient_reducer.hpp>
#include <kerkis/optim/sgd.hpp>

using Space = Kokkos::DefaultHostExecutionSpace;
using Sgd = kerkis::optim::Sgd;

void step(const kerkis::ParameterStore<double, Space>& store, kerkis::GradientReducer<double, Space>& reducer) {
  const Space host;
  Sgd::State<double, Space> state(store);
#if KERKIS_MISTAKE == 1
  reducer.ready(host, {0, 1});
  state.step(host, {}, store, {}, 1, 1e-2);
#else
  state.step(host, {}, store, reducer.finish(host), 1, 1e-2);
#endif
}
