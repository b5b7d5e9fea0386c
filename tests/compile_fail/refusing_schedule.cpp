// SPDX-License-Identifier: Apache-2.0
// EXPECT: the schedule of this Pipeline can't do these numbers of ranks and microbatches
// EXPECT: refused<[a-z:]*Words<[0-9]+[ul]*>{[{]?"groups of fewer microbatches than
#include <kerkis/policy/pipeline.hpp>
#include <kerkis/schedule/interleaved.hpp>

#ifdef KERKIS_FAIL
kerkis::Pipeline<4, kerkis::Interleaved<2, 3>, kerkis::Microbatches<8>> policy;
#else
kerkis::Pipeline<4, kerkis::Interleaved<2, 4>, kerkis::Microbatches<8>> policy;
#endif
