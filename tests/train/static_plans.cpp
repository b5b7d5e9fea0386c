// SPDX-License-Identifier: Apache-2.0
// The same numbers under plans whose extents, schedules and options are types.

#include <doctest/doctest.h>

#include <kerkis/kerkis.hpp>

#include "equivalence.hpp"

namespace kk = kerkis;
using namespace equivalence;

namespace {

template <class Plan>
void check(const kk::PipelineOptions& options = {}) {
  const kk::Communicator world(MPI_COMM_WORLD);
  Case c{.name = "static"};
  c.pipeline = options;
  const Trace reference = serial<double>(world, c);
  const kk::Mesh<Plan> mesh(world.native());
  const Trace trace = train<double>(mesh, c, kk::optim::AdamW{.learning_rate = 3e-4}, [](const auto&, const auto&) {});
  double losses = 0, norms = 0, parameters = 0;
  CHECK_MESSAGE(equal<double>(trace, reference, losses, norms, parameters), mesh.description(), ": losses differ by ",
                losses, ", norms by ", norms, ", parameters by ", parameters);
}

}  // namespace

TEST_CASE("static plans") {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks == 1) check<kk::Serial>();
  if (ranks == 2)
    check<kk::Pipeline<2, kk::ZeroBubbleV, kk::Microbatches<8>, kk::Recompute<kk::recompute::every<1>>>>();
  if (ranks == 3)
    check<kk::Hybrid<kk::DataParallel<>, kk::Pipeline<3, kk::Interleaved<>, kk::Microbatches<4>>>>({.chunks = 2});
  if (ranks == 4) check<kk::Hybrid<kk::DataParallel<2>, kk::TensorParallel<2>>>();
  if (ranks == 8)
    check<kk::Hybrid<kk::DataParallel<>, kk::TensorParallel<2>,
                     kk::Pipeline<2, kk::DualPipeV, kk::Microbatches<4>, kk::Recompute<kk::recompute::full>>>>();
}

TEST_CASE("what a plan says is not said otherwise") {
  const kk::Mesh<kk::Pipeline<1, kk::ZeroBubbleV, kk::Recompute<kk::recompute::full>>> mesh;
  using Model = kk::nn::Gpt<double, kk::Pipeline<1, kk::ZeroBubbleV, kk::Recompute<kk::recompute::full>>>;
  CHECK(Model(mesh, {}).placement().stages() == 2);
  CHECK(Model(mesh, {}, {.recompute = kk::Recomputation::full()}).table(3).microbatches() == 3);
  CHECK_THROWS_WITH_AS(Model(mesh, {}, scheduled("1f1b")), "the schedule 1f1b is chosen, but the plan says zb-v",
                       kk::InputError);
  CHECK_THROWS_AS(Model(mesh, {}, {.recompute = kk::Recomputation::none()}), kk::InputError);
  CHECK_THROWS_WITH_AS((kk::nn::Gpt<double, kk::Serial>(kk::Mesh<kk::Serial>(), {}, scheduled("1f1b"))),
                       "the plan has no pipeline for the schedule 1f1b", kk::InputError);
}
