// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/core/philox.hpp>
#include <kerkis/data_parallel/gradient_reducer.hpp>
#include <module/model.hpp>

#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

namespace {

using namespace kerkis;
using Host = Kokkos::DefaultHostExecutionSpace;
template <class T>
using Store = ParameterStore<T, Host>;
template <class T>
using Reducer = GradientReducer<T, Host>;

// Only a reducer says that gradients are finished.
static_assert(!std::is_default_constructible_v<FinishedGradients> && !std::is_aggregate_v<FinishedGradients>);

/// What `rank` adds to the gradient at `i` in `round`.
double contribution(int rank, std::size_t i, int round) {
  return Random(5, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(round)).normal(i);
}

template <class T>
void fill(const Store<T>& store, int rank, int round) {
  const auto& gradients = store.gradients();
  for (std::size_t i = 0; i < gradients.extent(0); ++i) gradients(i) = static_cast<T>(contribution(rank, i, round));
}

/// The largest difference from the sum over `ranks`, in units of rounding.
template <class T>
double error(const Store<T>& store, const std::vector<int>& ranks, int round) {
  double largest = 0;
  for (std::size_t i = 0; i < store.gradients().extent(0); ++i) {
    double sum = 0;
    for (const int rank : ranks) sum += static_cast<double>(static_cast<T>(contribution(rank, i, round)));
    largest = std::max(largest, std::abs(static_cast<double>(store.gradients()(i)) - sum));
  }
  return largest / static_cast<double>(std::numeric_limits<T>::epsilon());
}

/// Whether this rank's gradients are rank 0's, bit for bit.
template <class T>
bool is_replica(const Communicator& world, const Store<T>& store) {
  const Vector<T, Host> first("first", store.gradients().extent(0));
  Kokkos::deep_copy(first, store.gradients());
  broadcast(Host(), world, first).wait();
  return std::memcmp(first.data(), store.gradients().data(), first.size() * sizeof(T)) == 0;
}

std::vector<int> everyone(const Communicator& world) {
  std::vector<int> ranks;
  for (int rank = 0; rank < world.size(); ++rank) ranks.push_back(rank);
  return ranks;
}

TEST_CASE_TEMPLATE("gradients are summed once, whatever the buckets, the chunks and what is ready when", T, float,
                   double) {
  const Communicator world(MPI_COMM_WORLD);
  const auto ranks = everyone(world);
  auto model = Model<T>::make(0, 1);
  const Store<T> store(model, 0);
  const auto all = static_cast<std::int64_t>(store.gradients().extent(0));
  const std::int64_t middle = store.offset(model.list[2]);
  const Host host;

  for (const std::size_t bucket_bytes : {std::size_t{999}, std::size_t{10'000}, std::size_t{1} << 30}) {
    CAPTURE(bucket_bytes);
    Reducer<T> one(world, store, {{0, all}}, bucket_bytes);
    Reducer<T> two(world, store, {{0, middle}, {middle, all}}, bucket_bytes);
    for (int round = 0; round < 2; ++round) {  // a reducer serves many steps
      fill(store, world.rank(), round);
      one.finish(host);
      CHECK(error(store, ranks, round) < 16);
      CHECK(is_replica(world, store));

      fill(store, world.rank(), round);  // from the last parameter to the first, as a backward pass goes
      for (auto parameter = model.list.rbegin(); parameter != model.list.rend(); ++parameter)
        one.ready(host, {store.offset(*parameter), all});
      one.finish(host);
      CHECK(error(store, ranks, round) < 16);
      CHECK(is_replica(world, store));

      fill(store, world.rank(), round);  // chunks on their own, the second halfway when the first ends; some said twice
      two.ready(host, {store.offset(model.list[4]), all});
      two.ready(host, {0, middle});
      two.ready(host, {0, middle});
      two.ready(host, {middle, all});
      two.finish(host);
      CHECK(error(store, ranks, round) < 16);
      CHECK(is_replica(world, store));
    }
  }
}

TEST_CASE("a bucket that is ready starts at once, and no other") {
  const Communicator world(MPI_COMM_WORLD);
  auto model = Model<double>::make(0, 1);
  const Store<double> store(model, 0);
  const auto all = static_cast<std::int64_t>(store.gradients().extent(0));
  Reducer<double> reducer(world, store, {{0, all}}, 1000 * sizeof(double));
  fill(store, world.rank(), 0);
  reducer.ready(Host(), {all - 1500, all});
  // The bucket [all - 2000, all - 1000) is not whole yet: what is written there counts.
  for (std::int64_t i = all - 2000; i < all - 1500; ++i) store.gradients()(static_cast<std::size_t>(i)) *= 2;
  reducer.finish(Host());
  double expected = 0, last = 0;
  for (const int rank : everyone(world)) {
    expected += 2 * contribution(rank, static_cast<std::size_t>(all - 2000), 0);
    last += contribution(rank, static_cast<std::size_t>(all - 1), 0);
  }
  CHECK(store.gradients()(static_cast<std::size_t>(all - 2000)) == doctest::Approx(expected).epsilon(1e-12));
  CHECK(store.gradients()(static_cast<std::size_t>(all - 1)) == doctest::Approx(last).epsilon(1e-12));
}

TEST_CASE("a shared parameter is summed over its sharers too") {
  const Communicator world(MPI_COMM_WORLD);
  // Grids of data × stages; the stages share the first parameter, as tied embeddings do.
  for (int stages = 1; stages <= world.size(); ++stages) {
    if (world.size() % stages != 0) continue;
    CAPTURE(stages);
    const int replicas = world.size() / stages, stage = world.rank() / replicas, replica = world.rank() % replicas;
    const Communicator data = world.split(stage, replica, "data"), sharers = world.split(replica, stage, "pipeline");
    auto model = Model<double>::make(0, 1);
    const Store<double> store(model, 0);
    const auto all = static_cast<std::int64_t>(store.gradients().extent(0));
    Reducer<double> reducer(data, store, {{0, all}}, 1000);
    reducer.share(sharers, model.list[0].gradient);
    for (int round = 0; round < 2; ++round) {
      for (std::size_t i = 0; i < store.gradients().extent(0); ++i) store.gradients()(i) = world.rank() + 1 + round;
      reducer.finish(Host());
      double everybody = 0, mine = 0;
      for (int rank = 0; rank < world.size(); ++rank) {
        everybody += rank + 1 + round;
        if (rank / replicas == stage) mine += rank + 1 + round;
      }
      CHECK(model.list[0].gradient(0) == everybody);
      CHECK(model.list[0].gradient(34) == everybody);
      CHECK(model.list[1].gradient(0) == mine);
      CHECK(model.list[4].gradient(200 * 201 - 1) == mine);
    }
  }
}

TEST_CASE("without other replicas, and without parameters") {
  auto model = Model<float>::make(0, 1);
  const Store<float> store(model, 0);
  fill(store, 3, 0);
  Reducer<float> alone(Communicator(), store, {{0, static_cast<std::int64_t>(store.gradients().extent(0))}}, 100);
  alone.finish(Host());
  CHECK(error(store, {3}, 0) == 0);

  const Communicator world(MPI_COMM_WORLD);
  Model<float> none;
  const Store<float> empty(none, 0);
  CHECK_NOTHROW(Reducer<float>(world, empty, {{0, 0}}, 100).finish(Host()));
}

}  // namespace
