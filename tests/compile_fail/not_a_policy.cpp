// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: a Hybrid takes policies
#include <kerkis/policy/data_parallel.hpp>
#include <kerkis/policy/hybrid.hpp>

#if KERKIS_MISTAKE == 1
kerkis::Hybrid<kerkis::DataParallel<2>, int> plan;
#else
kerkis::Hybrid<kerkis::DataParallel<2>> plan;
#endif
