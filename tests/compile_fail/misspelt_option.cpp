// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: DataParallel takes the option Buckets<bytes>; one of those given is something else
// EXPECT 2: TensorParallel takes no options
// EXPECT 3: Pipeline takes the options Microbatches<M>, Recompute<...> and a schedule; one of those given is
#include <kerkis/policy/data_parallel.hpp>
#include <kerkis/policy/pipeline.hpp>
#include <kerkis/policy/tensor_parallel.hpp>

#if KERKIS_MISTAKE == 1
kerkis::DataParallel<2, kerkis::Microbatches<4>> data;
#elif KERKIS_MISTAKE == 2
kerkis::TensorParallel<2, kerkis::Buckets<1000>> tensor;
#elif KERKIS_MISTAKE == 3
kerkis::Pipeline<2, kerkis::Buckets<1000>> pipeline;
#else
kerkis::DataParallel<2, kerkis::Buckets<1000>> data;
kerkis::Pipeline<2, kerkis::Microbatches<4>> pipeline;
#endif
