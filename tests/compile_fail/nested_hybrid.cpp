// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: a Hybrid does not nest
#include <kerkis/policy/data_parallel.hpp>
#include <kerkis/policy/hybrid.hpp>
#include <kerkis/policy/tensor_parallel.hpp>

#if KERKIS_MISTAKE == 1
kerkis::Hybrid<kerkis::DataParallel<2>, kerkis::Hybrid<kerkis::TensorParallel<2>>> plan;
#else
kerkis::Hybrid<kerkis::DataParallel<2>, kerkis::TensorParallel<2>> plan;
#endif
