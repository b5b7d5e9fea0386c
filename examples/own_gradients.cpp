// SPDX-License-Identifier: Apache-2.0
// Data parallelism on arrays of your own: every rank takes its share of the samples, and the gradients are summed while
// the backward pass still runs. No layer of the library is used.
//
//     mpiexec -n 3 own_gradients

#include <cmath>
#include <cstdio>
#include <kerkis/comm/environment.hpp>
#include <kerkis/data_parallel/gradient_reducer.hpp>
#include <kerkis/optim/sgd.hpp>

namespace kk = kerkis;
using Space = Kokkos::DefaultHostExecutionSpace;  // plain loops stand for your kernels
using Parameter = kk::Parameter<double, Space>;

constexpr int features = 5;
constexpr std::int64_t samples = 50;  // any number of ranks will do

/// y = slope · x + offset. A store lays all values, and all gradients, in one flat array each, in this order.
struct Line {
  Parameter slope = Parameter::whole("slope", {features}, kk::Initial::normal(0.1), true);
  Parameter offset = Parameter::whole("offset", {1}, kk::Initial::constant(0), false);
  template <class F>
  void for_each_parameter(F&& f) {
    f(slope), f(offset);
  }
};

double feature(std::int64_t sample, int f) { return std::sin(static_cast<double>(sample * (f + 1))); }

/// Fits the line to y = x₀ - 2 x₁ + 3, and returns the offset.
double fit(const kk::Communicator& ranks) {
  const Space execution;
  Line line;
  const kk::ParameterStore<double, Space> store(line, 0);
  store.initialise(1);  // the same values on every rank
  const auto end = static_cast<std::int64_t>(store.gradients().extent(0));
  // Buckets as small as these would never pay: two of them, for the sake of the example.
  kk::GradientReducer<double, Space> reducer(ranks, store, {{0, end}}, 32 * sizeof(double));
  const kk::optim::Sgd sgd{.learning_rate = 0.1};
  kk::optim::Sgd::State<double, Space> state(store);
  const kk::Range mine = kk::partition(samples, ranks.size(), ranks.rank());

  for (int step = 0; step < 300; ++step) {
    std::vector<double> errors;
    for (std::int64_t s = mine.begin; s < mine.end; ++s) {
      double y = line.offset.value(0);
      for (int f = 0; f < features; ++f) y += line.slope.value(f) * feature(s, f);
      errors.push_back(y - (feature(s, 0) - 2 * feature(s, 1) + 3));
    }
    // Sums over this rank's samples, never means: ranks have different numbers of them.
    for (const double error : errors) line.offset.gradient(0) += 2 * error;
    reducer.ready(execution, {store.offset(line.offset), end});  // this bucket is on its way
    for (std::int64_t s = mine.begin; s < mine.end; ++s)
      for (int f = 0; f < features; ++f)
        line.slope.gradient(f) += 2 * errors[static_cast<std::size_t>(s - mine.begin)] * feature(s, f);
    const kk::FinishedGradients finished = reducer.finish(execution);  // without this proof no optimizer takes them
    state.step(execution, sgd, store, finished, 1.0 / samples,
               sgd.learning_rate);  // the one division; zeroes gradients
  }
  return line.offset.value(0);
}

void example() {
  const kk::Communicator world(MPI_COMM_WORLD);
  const double ours = fit(world), alone = fit(kk::Communicator());
  if (std::abs(ours - alone) > 1e-12 || std::abs(ours - 3) > 1e-3) throw kk::Error(kk::message(ours, ", not ", alone));
  if (world.rank() == 0) std::printf("%d ranks: the offset is %.9f, as on one\n", world.size(), ours);
}

int main(int argc, char** argv) { return kk::run(argc, argv, example); }
