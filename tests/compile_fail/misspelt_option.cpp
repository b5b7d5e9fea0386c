// SPDX-License-Identifier: Apache-2.0
// EXPECT: DataParallel takes the option Buckets<bytes>; one of those given is something else
// EXPECT: TensorParallel takes no options
// EXPECT: Pipeline takes the options Microbatches<M>, Recompute<...> and a schedule; one of those given is
#include <kerkis/policy/data_parallel.hpp>
#include <kerkis/policy/pipeline.hpp>
#include <kerkis/policy/tensor_parallel.hpp>

#ifdef KERKIS_FAIL
kerkis::DataParallel<2, kerkis::Microbatches<4>> data;
kerkis::TensorParallel<2, kerkis::Buckets<1000>> tensor;
kerkis::Pipeline<2, kerkis::Buckets<1000>> pipeline;
#else
kerkis::DataParallel<2, kerkis::Buckets<1000>> data;
kerkis::TensorParallel<2> tensor;
kerkis::Pipeline<2, kerkis::Microbatches<4>> pipeline;
#endif
