// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: DataParallel<0>: an axis needs at least one rank
// EXPECT 2: TensorParallel<0>: an axis needs at least one rank
// EXPECT 3: Pipeline<0>: an axis needs at least one rank
#include <kerkis/policy/data_parallel.hpp>
#include <kerkis/policy/pipeline.hpp>
#include <kerkis/policy/tensor_parallel.hpp>

kerkis::DataParallel<KERKIS_MISTAKE == 1 ? 0 : 1> data;
kerkis::TensorParallel<KERKIS_MISTAKE == 2 ? 0 : 1> tensor;
kerkis::Pipeline<KERKIS_MISTAKE == 3 ? 0 : 1> pipeline;
