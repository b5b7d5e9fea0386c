// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: the schedule of this Pipeline deadlocks
// EXPECT 1: deadlock<kerkis::schedule::waits_for<[01], [01]>, kerkis::schedule::waits_for<[01], [01]> ?>
#include <kerkis/policy/pipeline.hpp>

/// Every rank has its own order right, and still the last wants microbatch 1 first while the first waits for the
/// gradient of 0.
struct Crossed {
  static constexpr std::string_view name = "crossed";

  static constexpr void order(kerkis::PipelineShape shape, int rank, kerkis::ActionList& list) {
    const bool crossed = KERKIS_MISTAKE == 1 && rank == shape.ranks - 1;
    for (int m = 0; m < shape.microbatches; ++m) {
      list.forward(crossed ? shape.microbatches - 1 - m : m);
      list.backward(crossed ? shape.microbatches - 1 - m : m);
    }
  }
};

kerkis::Pipeline<2, Crossed, kerkis::Microbatches<2>> policy;
