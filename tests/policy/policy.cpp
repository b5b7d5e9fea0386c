// SPDX-License-Identifier: Apache-2.0
// Policies are types: nearly all of this is checked when it is compiled.
#include <doctest/doctest.h>
#include <kerkis/policy/data_parallel.hpp>
#include <kerkis/policy/hybrid.hpp>
#include <kerkis/policy/pipeline.hpp>
#include <kerkis/policy/tensor_parallel.hpp>
#include <kerkis/schedule/gpipe.hpp>

#include <algorithm>
#include <string>
#include <type_traits>

namespace {

using namespace kerkis;

// ---- options, in any order, and what holds without them
static_assert(DataParallel<>::extent == dynamic && DataParallel<3>::extent == 3);
static_assert(DataParallel<>::bucket_bytes == std::size_t{4} << 20);
static_assert(DataParallel<dynamic, Buckets<1000>>::bucket_bytes == 1000);
static_assert(TensorParallel<>::extent == dynamic && TensorParallel<2>::extent == 2);
static_assert(Pipeline<>::extent == dynamic && Pipeline<>::microbatches == dynamic);
static_assert(std::is_same_v<Pipeline<>::schedule, OneForwardOneBackward>);
static_assert(std::is_same_v<Pipeline<2, Microbatches<4>, GPipe>::schedule, GPipe> &&
              Pipeline<2, Microbatches<4>, GPipe>::microbatches == 4);
static_assert(std::is_same_v<Pipeline<2, GPipe, Microbatches<4>>::schedule, GPipe> &&
              Pipeline<2, GPipe, Microbatches<4>>::microbatches == 4);

/// A schedule of a user's own.
struct OneByOne {
  static constexpr std::string_view name = "one-by-one";
  static constexpr void order(PipelineShape shape, int, ActionList& list) {
    for (int m = 0; m < shape.microbatches; ++m) {
      list.forward(m);
      list.backward(m);
    }
  }
};
static_assert(std::is_same_v<Pipeline<3, Microbatches<5>, OneByOne>::schedule, OneByOne>);

// ---- plans
static_assert(Policy<DataParallel<>> && Policy<TensorParallel<2>> && Policy<Pipeline<>>);
static_assert(!Policy<Serial> && !Policy<int> && !Policy<GPipe>);

using Plan = Hybrid<Pipeline<2, GPipe>, DataParallel<>, TensorParallel<3>>;
using Traits = plan_traits<Plan>;
static_assert(Traits::extent<axis::Pipeline> == 2 && Traits::extent<axis::Data> == dynamic &&
              Traits::extent<axis::Tensor> == 3);
static_assert(std::is_same_v<Traits::on<axis::Pipeline>, Pipeline<2, GPipe>>);
static_assert(std::is_void_v<plan_traits<Hybrid<DataParallel<2>>>::on<axis::Tensor>>);

// a single policy is a plan, and the one without policies has every axis 1
static_assert(plan_traits<TensorParallel<4>>::extent<axis::Tensor> == 4 &&
              plan_traits<TensorParallel<4>>::extent<axis::Data> == 1);
static_assert(std::is_same_v<plan_traits<TensorParallel<4>>::on<axis::Tensor>, TensorParallel<4>>);
static_assert(plan_traits<Serial>::extent<axis::Data> == 1 && plan_traits<Serial>::extent<axis::Pipeline> == 1);

// ---- an axis and a policy of a user's own
struct Sequence {
  static constexpr std::string_view name = "sequence";
  static constexpr int distance = 5;
};
template <std::size_t N>
struct SequenceParallel {
  using axis = Sequence;
  static constexpr std::size_t extent = N;
};
static_assert(Policy<SequenceParallel<2>>);
static_assert(plan_traits<Hybrid<DataParallel<>, SequenceParallel<2>>>::extent<Sequence> == 2);

TEST_CASE("for_each visits every policy once, in the order of the plan") {
  std::string names;
  Traits::for_each([&]<class P>() { names += std::string(P::axis::name) + " "; });
  CHECK(names == "pipeline data tensor ");
  int visits = 0;
  plan_traits<Serial>::for_each([&]<class P>() { ++visits; });
  CHECK(visits == 0);
}

TEST_CASE("extents by name") {
  CHECK(data(3).value == 3);
  CHECK(tensor(2).value == 2);
  CHECK(pipeline(4).value == 4);
  static_assert(std::is_same_v<decltype(data(3)), AxisExtent<axis::Data>>);
}

}  // namespace
