// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: Buckets<bytes> needs a size above 0
// EXPECT 2: Microbatches<0>: a step needs at least one microbatch
#include <kerkis/policy/data_parallel.hpp>
#include <kerkis/policy/pipeline.hpp>

kerkis::DataParallel<2, kerkis::Buckets<KERKIS_MISTAKE == 1 ? 0 : 1000>> data;
kerkis::Pipeline<2, kerkis::Microbatches<KERKIS_MISTAKE == 2 ? 0 : 4>> pipeline;
