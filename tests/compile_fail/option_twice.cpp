// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: DataParallel has the option Buckets twice
// EXPECT 2: Pipeline has the option Microbatches twice
#include <kerkis/policy/data_parallel.hpp>
#include <kerkis/policy/pipeline.hpp>

#if KERKIS_MISTAKE == 1
kerkis::DataParallel<2, kerkis::Buckets<1000>, kerkis::Buckets<2000>> data;
#elif KERKIS_MISTAKE == 2
kerkis::Pipeline<2, kerkis::Microbatches<4>, kerkis::Microbatches<4>> pipeline;
#endif
