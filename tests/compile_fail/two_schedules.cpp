// SPDX-License-Identifier: Apache-2.0
// EXPECT: Pipeline has two schedules
#include <kerkis/policy/pipeline.hpp>
#include <kerkis/schedule/gpipe.hpp>

#ifdef KERKIS_FAIL
kerkis::Pipeline<2, kerkis::GPipe, kerkis::OneForwardOneBackward> policy;
#else
kerkis::Pipeline<2, kerkis::GPipe> policy;
#endif
