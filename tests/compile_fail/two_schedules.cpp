// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: Pipeline has two schedules
#include <kerkis/policy/pipeline.hpp>
#include <kerkis/schedule/gpipe.hpp>

#if KERKIS_MISTAKE == 1
kerkis::Pipeline<2, kerkis::GPipe, kerkis::OneForwardOneBackward> policy;
#else
kerkis::Pipeline<2, kerkis::GPipe> policy;
#endif
