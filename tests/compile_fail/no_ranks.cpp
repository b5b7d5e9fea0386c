// SPDX-License-Identifier: Apache-2.0
// EXPECT: DataParallel<0>: an axis needs at least one rank
// EXPECT: TensorParallel<0>: an axis needs at least one rank
// EXPECT: Pipeline<0>: an axis needs at least one rank
#include <kerkis/policy/data_parallel.hpp>
#include <kerkis/policy/pipeline.hpp>
#include <kerkis/policy/tensor_parallel.hpp>

#ifdef KERKIS_FAIL
kerkis::DataParallel<0> data;
kerkis::TensorParallel<0> tensor;
kerkis::Pipeline<0> pipeline;
#else
kerkis::DataParallel<1> data;
kerkis::TensorParallel<1> tensor;
kerkis::Pipeline<1> pipeline;
#endif
