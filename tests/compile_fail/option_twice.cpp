// SPDX-License-Identifier: Apache-2.0
// EXPECT: DataParallel has the option Buckets twice
// EXPECT: Pipeline has the option Microbatches twice
#include <kerkis/policy/data_parallel.hpp>
#include <kerkis/policy/pipeline.hpp>

#ifdef KERKIS_FAIL
kerkis::DataParallel<2, kerkis::Buckets<1000>, kerkis::Buckets<2000>> data;
kerkis::Pipeline<2, kerkis::Microbatches<4>, kerkis::Microbatches<4>> pipeline;
#else
kerkis::DataParallel<2, kerkis::Buckets<1000>> data;
kerkis::Pipeline<2, kerkis::Microbatches<4>> pipeline;
#endif
