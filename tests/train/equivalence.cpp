// SPDX-License-Identifier: Apache-2.0
// The same numbers under every plan.

#include <doctest/doctest.h>

#include <cstdlib>
#include <kerkis/kerkis.hpp>
#include <vector>

#include "equivalence.hpp"

namespace kk = kerkis;
using namespace equivalence;

namespace {

struct Extents {
  std::size_t data, tensor, pipeline;
};

/// Every way to write the number of ranks as data · tensor · pipeline; of eight ranks 2 · 2 · 2 only.
std::vector<Extents> plans(std::size_t ranks) {
  std::vector<Extents> result;
  if (ranks == 8) return {{2, 2, 2}};
  for (std::size_t data = 1; data <= ranks; ++data)
    for (std::size_t tensor = 1; data * tensor <= ranks; ++tensor)
      if (ranks % (data * tensor) == 0) result.push_back({data, tensor, ranks / (data * tensor)});
  return result;
}

/// Plans and schedules are paired so that each case meets every plan, and both schedules; KERKIS_TEST_ALL=1 runs the
/// whole product.
bool is_covered(std::size_t plan, std::size_t plans, std::size_t schedule) {
  static std::size_t next_case = 0;
  if (plan == 0 && schedule == 0) ++next_case;
  const char* all = std::getenv("KERKIS_TEST_ALL");
  return plans == 1 || (all != nullptr && *all == '1') || (plan + schedule + next_case) % 2 == 0;
}

template <class T, class Schedule>
void check(const kk::Communicator& world, const Case& c, const Trace& reference, std::size_t schedule) {
  const std::vector<Extents> all = plans(static_cast<std::size_t>(world.size()));
  for (std::size_t p = 0; p < all.size(); ++p) {
    if (!is_covered(p, all.size(), schedule)) continue;
    const Extents& extents = all[p];
    const kk::Mesh<DynamicPlan<Schedule>> mesh(world.native(), kk::data(extents.data), kk::tensor(extents.tensor),
                                               kk::pipeline(extents.pipeline));
    const Trace trace = train<T>(mesh, c);
    double losses = 0, norms = 0, parameters = 0;
    const bool same = equal<T>(trace, reference, losses, norms, parameters);
    CHECK_MESSAGE(same, c.name, ", ", Schedule::name, ", ", mesh.description(), ": losses differ by ", losses,
                  ", norms by ", norms, ", parameters by ", parameters);
  }
}

template <class T>
void check(const Case& c) {
  const kk::Communicator world(MPI_COMM_WORLD);
  const Trace reference = serial<T>(world, c);
  check<T, kk::GPipe>(world, c, reference, 0);
  check<T, kk::OneForwardOneBackward>(world, c, reference, 1);
}

constexpr kk::nn::GptConfig uneven{
    .layers = 5, .heads = 3, .width = 24, .context = 6, .vocabulary = 257, .dropout = 0.1, .tied = true};

}  // namespace

TEST_CASE("tied weights, no dropout, clipping active") { check<double>({.name = "tied"}); }

TEST_CASE("untied weights") {
  Case c{.name = "untied"};
  c.model.tied = false;
  check<double>(c);
}

TEST_CASE("dropout 0.1") {
  Case c{.name = "dropout"};
  c.model.dropout = 0.1;
  check<double>(c);
}

TEST_CASE("dropout 0.1, untied weights") {
  Case c{.name = "dropout, untied"};
  c.model.dropout = 0.1;
  c.model.tied = false;
  check<double>(c);
}

TEST_CASE("SGD with momentum, without clipping") { check<double>({.name = "sgd", .clip = 0, .sgd = true}); }

// The norms are on both sides of the limit.
TEST_CASE("post-validation") {
  check<double>({.name = "post-validation, AdamW", .clip = 1.8, .post_validation = true});
  check<double>({.name = "post-validation, SGD", .clip = 1.8, .sgd = true, .post_validation = true});
}

TEST_CASE("7 sequences, 5 layers, 3 heads, a vocabulary of 257") {
  check<double>({.name = "uneven", .model = uneven, .batch = 7, .microbatches = 3});
}

TEST_CASE("more microbatches than sequences") {
  check<double>({.name = "empty microbatches", .model = uneven, .batch = 3, .microbatches = 5});
}

TEST_CASE("fewer sequences than replicas, fewer layers than stages, fewer heads than tensor ranks") {
  check<double>(
      {.name = "empty shards",
       .model = {.layers = 2, .heads = 2, .width = 12, .context = 5, .vocabulary = 3, .dropout = 0.1, .tied = false},
       .batch = 2,
       .microbatches = 2});
}

TEST_CASE("float") {
  check<float>({.name = "float"});
  check<float>({.name = "float, uneven", .model = uneven, .batch = 7, .microbatches = 3});
}
