// SPDX-License-Identifier: Apache-2.0
// EXPECT: a Hybrid takes policies
#include <kerkis/policy/data_parallel.hpp>
#include <kerkis/policy/hybrid.hpp>

#ifdef KERKIS_FAIL
kerkis::Hybrid<kerkis::DataParallel<2>, int> plan;
#else
kerkis::Hybrid<kerkis::DataParallel<2>> plan;
#endif
