// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: the schedule of this Pipeline leaves a computation out
#include <kerkis/policy/pipeline.hpp>

/// Leaves out the last microbatch's backward pass.
struct Forgetful {
  static constexpr std::string_view name = "forgetful";

  static constexpr void order(kerkis::PipelineShape shape, int, kerkis::ActionList& list) {
    for (int m = 0; m < shape.microbatches; ++m) list.forward(m);
#if KERKIS_MISTAKE == 1
    const int passes = shape.microbatches - 1;
#else
    const int passes = shape.microbatches;
#endif
    for (int m = 0; m < passes; ++m) list.backward(m);
  }
};

kerkis::Pipeline<2, Forgetful, kerkis::Microbatches<4>> policy;
