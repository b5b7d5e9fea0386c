// SPDX-License-Identifier: Apache-2.0
#pragma once

/// Everything that needs no Asio, but for kerkis/trace/chrome.hpp: nlohmann/json takes as long to compile as half of
/// the rest. Include single headers where compile time matters.

#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/all_to_all.hpp>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/communicator.hpp>
#include <kerkis/comm/environment.hpp>
#include <kerkis/comm/exchange.hpp>
#include <kerkis/comm/exclusive_scan.hpp>
#include <kerkis/comm/gather.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/on_root.hpp>
#include <kerkis/comm/persistent_collective.hpp>
#include <kerkis/comm/persistent_hand_off.hpp>
#include <kerkis/comm/reduce.hpp>
#include <kerkis/comm/reduce_scatter.hpp>
#include <kerkis/comm/request_range.hpp>
#include <kerkis/comm/scan.hpp>
#include <kerkis/comm/scatter.hpp>
#include <kerkis/comm/shift.hpp>
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
#include <kerkis/nn/measure_costs.hpp>
#include <kerkis/optim/adamw.hpp>
#include <kerkis/optim/learning_rate.hpp>
#include <kerkis/optim/sgd.hpp>
#include <kerkis/pipeline/executor.hpp>
#include <kerkis/pipeline/module_stage.hpp>
#include <kerkis/policy/data_parallel.hpp>
#include <kerkis/policy/hybrid.hpp>
#include <kerkis/policy/pipeline.hpp>
#include <kerkis/policy/tensor_parallel.hpp>
#include <kerkis/schedule/automatic.hpp>
#include <kerkis/schedule/choose.hpp>
#include <kerkis/schedule/simulator.hpp>
#include <kerkis/train/trainer.hpp>
#include <kerkis/version.hpp>
