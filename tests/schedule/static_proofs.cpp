// SPDX-License-Identifier: Apache-2.0
// At compile time and within the compilers' default limits, up to the largest tables that are promised to fit.
#include <doctest/doctest.h>

#include <kerkis/schedule/forward_only.hpp>
#include <kerkis/schedule/proven.hpp>
#include <kerkis/schedule/registry.hpp>

#include <type_traits>

using namespace kerkis;
using namespace kerkis::schedule;

namespace {

template <class S, int chunks>
constexpr bool proven_to_the_limit = small<S, 8, 64 / chunks> && !small<S, 8, 64 / chunks + 1> &&
                                     proven<S, 8, 64 / chunks> && proven<S, 4, 3> && proven<S, 1, 1>;

static_assert(proven_to_the_limit<GPipe, 1>);
static_assert(proven_to_the_limit<OneForwardOneBackward, 1>);
static_assert(proven_to_the_limit<Interleaved<2>, 2>);
static_assert(proven_to_the_limit<Interleaved<4>, 4>);
static_assert(proven_to_the_limit<BreadthFirst<4>, 4>);
static_assert(proven_to_the_limit<ZeroBubbleH1, 1>);
static_assert(proven_to_the_limit<ZeroBubbleH2, 1>);
static_assert(proven_to_the_limit<ZeroBubbleV, 2>);
static_assert(proven_to_the_limit<ZeroBubbleVHalf, 2>);
static_assert(proven_to_the_limit<ZeroBubbleVMin, 2>);
static_assert(proven_to_the_limit<DualPipeV, 2>);
static_assert(proven<ForwardOnly, 8, 64>);
static_assert(proven<ZeroBubbleVHalf, 16, 16> && proven<ZeroBubbleVMin, 16, 16> && proven<DualPipeV, 16, 16>);
static_assert(proven<Interleaved<3>, 4, 5>);  // deadlocks in the plain order

static_assert(static_depth<ZeroBubbleV, 4, 8> == Depth{1, 0});
static_assert(static_depth<BreadthFirst<3>, 2, 8> == Depth{4, 0});

static_assert(static_fault<Interleaved<2, 3>, 4, 8> == Fault::refused && !proven<Interleaved<2, 3>, 4, 8>);
static_assert(std::is_same_v<static_refusal<Interleaved<2, 3>, 4, 8>,
                             refused<Words<58>("groups of fewer microbatches than there are ranks deadlock")>>);

/// Rank 1 begins with what comes to it last.
struct Contrary {
  static constexpr std::string_view name = "contrary";
  static constexpr void order(PipelineShape shape, int rank, ActionList& list) {
    for (int m = 0; m < shape.microbatches; ++m) {
      list.forward(rank == 1 ? shape.microbatches - 1 - m : m);
      list.backward(rank == 1 ? shape.microbatches - 1 - m : m);
    }
  }
};
static_assert(static_fault<Contrary, 3, 2> == Fault::deadlock);
static_assert(std::is_same_v<static_deadlock<Contrary, 3, 2>, deadlock<waits_for<0, 1>, waits_for<1, 0>>> ||
              std::is_same_v<static_deadlock<Contrary, 3, 2>, deadlock<waits_for<1, 0>, waits_for<0, 1>>>);

}  // namespace

TEST_CASE("what was proven at compile time holds at run time") {
  CHECK(verify(make_table<ZeroBubbleV>({8, 32})).ok());
  CHECK(verify(make_table<Contrary>({3, 2})).cycle.size() == 2);
}
