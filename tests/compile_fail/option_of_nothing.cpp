// SPDX-License-Identifier: Apache-2.0
// EXPECT: Buckets<bytes> needs a size above 0
// EXPECT: Microbatches<0>: a step needs at least one microbatch
#include <kerkis/policy/data_parallel.hpp>
#include <kerkis/policy/pipeline.hpp>

#ifdef KERKIS_FAIL
constexpr std::size_t none = 0;
#else
constexpr std::size_t none = 1;
#endif
kerkis::DataParallel<2, kerkis::Buckets<none>> data;
kerkis::Pipeline<2, kerkis::Microbatches<none>> pipeline;
