// SPDX-License-Identifier: Apache-2.0
// EXPECT: the schedule of this Pipeline deadlocks
// EXPECT: deadlock<kerkis::schedule::waits_for<[01], [01]>, kerkis::schedule::waits_for<[01], [01]> ?>
// EXPECT: deadlocking_schedule.cpp:[0-9]+:[0-9]+: error: static assertion failed.*: for this test: deadlock
#include <kerkis/policy/pipeline.hpp>

/// Every rank has its own order right, and still the last wants microbatch 1 first while the first waits for the
/// gradient of 0.
struct Crossed {
  static constexpr std::string_view name = "crossed";

  static constexpr void order(kerkis::PipelineShape shape, int rank, kerkis::ActionList& list) {
#ifdef KERKIS_FAIL
    const bool crossed = rank == shape.ranks - 1;
#else
    const bool crossed = false;
#endif
    for (int m = 0; m < shape.microbatches; ++m) {
      list.forward(crossed ? shape.microbatches - 1 - m : m);
      list.backward(crossed ? shape.microbatches - 1 - m : m);
    }
  }
};

static_assert(kerkis::schedule::static_fault<Crossed, 2, 2> != kerkis::schedule::Fault::deadlock,
              "for this test: deadlock");
kerkis::Pipeline<2, Crossed, kerkis::Microbatches<2>> policy;
