// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <kerkis/data/token_loader.hpp>
#include <kerkis/policy/data_parallel.hpp>
#include <kerkis/policy/pipeline.hpp>
#include <kerkis/policy/tensor_parallel.hpp>

#include <numeric>
#include <vector>

namespace {

using namespace kerkis;
using Loader = TokenLoader<Kokkos::DefaultHostExecutionSpace>;
using Tokens = std::vector<std::int32_t>;

/// A text in which every window tells where it begins.
std::vector<std::uint8_t> counting_text(std::size_t size = 251) {
  std::vector<std::uint8_t> text(size);
  std::iota(text.begin(), text.end(), std::uint8_t{0});
  return text;
}

template <class View>
Tokens copy(const View& view) {
  return {view.data(), view.data() + view.size()};
}

Tokens part(const Tokens& tokens, std::int64_t begin, std::int64_t end) {
  return {tokens.begin() + begin, tokens.begin() + end};
}

TEST_CASE("a replica's batch is its share of the serial batch") {
  const Mesh<DataParallel<>> mesh(MPI_COMM_WORLD);
  const Mesh<Serial> one;
  for (const std::int64_t sequences : {1, 2, 7, 16}) {
    CAPTURE(sequences);
    const TokenLoaderOptions options{.batch = sequences, .context = 9, .steps = 3, .seed = 5};
    Loader whole(one, counting_text(), options), share(mesh, counting_text(), options);
    const Range mine = partition(sequences, mesh.extent<axis::Data>(), mesh.coordinate<axis::Data>());
    for (const std::int64_t step : {0, 1, 77}) {
      const auto all = whole.load(step), batch = share.load(step);
      CHECK(all.rows() == 9 * sequences);
      CHECK(all.first_sample == 0);
      CHECK(batch.first_sample == mine.begin);
      CHECK(batch.rows() == 9 * mine.size());
      CHECK(copy(batch.tokens) == part(copy(all.tokens), 9 * mine.begin, 9 * mine.end));
      CHECK(copy(batch.targets) == part(copy(all.targets), 9 * mine.begin, 9 * mine.end));
    }
  }
}

TEST_CASE("tensor and pipeline ranks load what their replica loads") {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const Mesh<Hybrid<DataParallel<>, TensorParallel<>>> mesh(MPI_COMM_WORLD, data(1));
  Loader whole(Mesh<Serial>(), counting_text(), {}), same(mesh, counting_text(), {});
  CHECK(copy(same.load(2).tokens) == copy(whole.load(2).tokens));
}

TEST_CASE("windows depend on seed, step and sequence only") {
  const Mesh<Serial> one;
  const auto tokens = [&](TokenLoaderOptions options, std::int64_t step) {
    return copy(Loader(one, counting_text(), options).load(step).tokens);
  };
  const Tokens first = tokens({.batch = 4, .context = 8, .seed = 1}, 3);
  CHECK(first == tokens({.batch = 4, .context = 8, .steps = 99, .seed = 1}, 3));
  CHECK(first ==
        part(tokens({.batch = 6, .context = 8, .seed = 1}, 3), 0, 32));  // more sequences change none of the first
  CHECK(first != tokens({.batch = 4, .context = 8, .seed = 2}, 3));
  CHECK(first != tokens({.batch = 4, .context = 8, .seed = 1}, 4));
}

TEST_CASE("targets are the tokens one place later, of every place in the text") {
  Loader loader(Mesh<Serial>(), counting_text(12), {.batch = 200, .context = 8, .seed = 1});
  const auto batch = loader.load(0);
  std::vector<int> begins(4);
  for (std::size_t row = 0; row < batch.tokens.extent(0); ++row) {
    CHECK(batch.targets(row) == batch.tokens(row) + 1);
    if (row % 8 == 0) ++begins.at(static_cast<std::size_t>(batch.tokens(row)));
  }
  for (const int count : begins) CHECK(count > 25);
}

TEST_CASE("as a range, a loader is the batches of its steps") {
  Loader loader(Mesh<Serial>(), counting_text(), {.batch = 2, .context = 5, .steps = 4});
  std::int64_t step = 0;
  for (const auto batch : loader) {
    const Tokens seen = copy(batch.tokens);
    CHECK(seen == copy(loader.load(step++).tokens));
  }
  CHECK(step == 4);
}

TEST_CASE("windows for validation are spread from the beginning of the text to its end") {
  const Mesh<DataParallel<>> mesh(MPI_COMM_WORLD);
  Loader whole(Mesh<Serial>(), counting_text(101), {.context = 10}), share(mesh, counting_text(101), {.context = 10});
  const Tokens five = copy(whole.spread(5).tokens);
  CHECK(five.size() == 50);
  for (std::size_t s = 0; s < 5; ++s) CHECK(five[10 * s] == static_cast<std::int32_t>(90 * s / 4));
  const Range mine = partition(5, mesh.extent<axis::Data>(), mesh.coordinate<axis::Data>());
  CHECK(copy(share.spread(5).tokens) == part(five, 10 * mine.begin, 10 * mine.end));
  CHECK(whole.spread(1).rows() == 10);
  CHECK(whole.spread(1000).rows() == 90);  // at most as many as fit without overlap
  CHECK(whole.load(0).rows() == 160);
}

TEST_CASE("texts and options that are not the same on all ranks") {
  const Mesh<DataParallel<>> mesh(MPI_COMM_WORLD);
  const int last = mesh.world().size() - 1;
  if (last == 0) return;
  const bool other = mesh.world().rank() == last;
  const auto text = message(" must be the same on all ranks: 1 on rank 0, 2 on rank ", last);
  const std::uint64_t one = other ? 2 : 1;
  const auto size = static_cast<std::int64_t>(one);
  CHECK_THROWS_WITH_AS(Loader(mesh, counting_text(), {.batch = size}), message("loader: batch", text).c_str(),
                       InputError);
  CHECK_THROWS_WITH_AS(Loader(mesh, counting_text(), {.context = size}), message("loader: context", text).c_str(),
                       InputError);
  CHECK_THROWS_WITH_AS(Loader(mesh, counting_text(), {.seed = one}), message("loader: seed", text).c_str(), InputError);
  CHECK_THROWS_AS(Loader(mesh, counting_text(other ? 250 : 251), {}), InputError);
  CHECK_THROWS_AS(Loader(mesh, std::vector<std::uint8_t>(100, other ? 1 : 2), {}), InputError);
}

TEST_CASE("texts and numbers that make no sense") {
  const Mesh<Serial> one;
  CHECK_THROWS_WITH_AS(Loader(one, counting_text(8), {.context = 8}),
                       "loader: a text of 8 bytes is too short for sequences of 8 and their targets", InputError);
  CHECK_THROWS_WITH_AS(Loader(one, {}, {.context = 1}),
                       "loader: a text of 0 bytes is too short for sequences of 1 and their targets", InputError);
  CHECK_THROWS_WITH_AS(Loader(one, counting_text(), {.context = 0}),
                       "loader: a context of 0 tokens: at least 1 is needed", InputError);
  CHECK_THROWS_WITH_AS(Loader(one, counting_text(), {.batch = 0}),
                       "loader: a batch of 0 sequences: at least 1 is needed", InputError);
  Loader shortest(one, counting_text(9), {.batch = 3, .context = 8});
  CHECK(copy(shortest.load(1).tokens) == copy(shortest.load(2).tokens));
  CHECK(shortest.spread(4).rows() == 8);
}

}  // namespace
