// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Everything that needs no Asio. Include single headers where compile time matters.

#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/communicator.hpp>
#include <kerkis/comm/environment.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/on_root.hpp>
#include <kerkis/comm/reduce_scatter.hpp>
#include <kerkis/core/error.hpp>
#include <kerkis/core/partition.hpp>
#include <kerkis/core/philox.hpp>
#include <kerkis/data/text_corpus.hpp>
#include <kerkis/data/token_loader.hpp>
#include <kerkis/data_parallel/gradient_reducer.hpp>
#include <kerkis/mesh/mesh.hpp>
#include <kerkis/module/module.hpp>
#include <kerkis/module/parameter_store.hpp>
#include <kerkis/nn/generate.hpp>
#include <kerkis/nn/gpt.hpp>
#include <kerkis/optim/adamw.hpp>
#include <kerkis/optim/learning_rate.hpp>
#include <kerkis/optim/sgd.hpp>
#include <kerkis/pipeline/executor.hpp>
#include <kerkis/policy/data_parallel.hpp>
#include <kerkis/policy/hybrid.hpp>
#include <kerkis/policy/pipeline.hpp>
#include <kerkis/policy/tensor_parallel.hpp>
#include <kerkis/schedule/gpipe.hpp>
#include <kerkis/schedule/one_forward_one_backward.hpp>
#include <kerkis/schedule/simulator.hpp>
#include <kerkis/train/trainer.hpp>
#include <kerkis/version.hpp>
