// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: the schedule of this Pipeline can't do these numbers of ranks and microbatches
// EXPECT 1: refused<[a-z:]*Words<[0-9]+[ul]*>{[{]?"groups of fewer microbatches than
#include <kerkis/policy/pipeline.hpp>
#include <kerkis/schedule/interleaved.hpp>

#if KERKIS_MISTAKE == 1
kerkis::Pipeline<4, kerkis::Interleaved<2, 3>, kerkis::Microbatches<8>> policy;
#else
kerkis::Pipeline<4, kerkis::Interleaved<2, 4>, kerkis::Microbatches<8>> policy;
#endif
