// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <kerkis/core/partition.hpp>
#include <kerkis/mesh/mesh.hpp>
#include <kerkis/nn/gpt_stage.hpp>
#include <kerkis/policy/pipeline.hpp>
#include <kerkis/schedule/table.hpp>

namespace kerkis::nn {

/// A GPT as it lies on this rank under `Plan`: blocks are spread evenly over the stages, each block's matrices over the
/// tensor axis. The template is thin: stages and layers know only T and Space. Stays where it is built, since
/// parameters are referred to.
template <class T, class Plan, class Space = Kokkos::DefaultExecutionSpace>
class Gpt {
  using PipelinePolicy = typename plan_traits<Plan>::template on<axis::Pipeline>;

 public:
  using Element = T;
  using ExecutionSpace = Space;
  using Stage = GptStage<T, Space>;

  /// The schedule whose order the stages follow; with one stage any is the same.
  using Schedule = typename std::conditional_t<std::is_void_v<PipelinePolicy>, std::type_identity<Pipeline<1>>,
                                               std::type_identity<PipelinePolicy>>::type::schedule;

  /// Collective over the mesh if weights are tied across stages. Throws InputError if the configuration makes no sense.
  template <class Place>
  Gpt(const Mesh<Plan, Place>& mesh, GptConfig config) : config_(config) {
    config.check();
    const int ranks = mesh.template extent<axis::Pipeline>(), rank = mesh.template coordinate<axis::Pipeline>();
    const schedule::Table table = schedule::make_table<Schedule>({ranks, 1});
    const int stages = table.stages();
    typename Stage::Table tokens;
    for (int chunk = 0; chunk < table.chunks(); ++chunk) {
      const int stage = table.stage(rank, chunk);
      chunks_.push_back(std::make_unique<Stage>(config, partition(config.layers, stages, stage), stage == 0,
                                                stage == stages - 1, mesh.template communicator<axis::Tensor>(),
                                                tokens));
      if (stage == 0) tokens = chunks_.back()->table();
    }
    const int first = table.rank_of(0), last = table.rank_of(stages - 1);
    if (config.tied && first != last) {
      const bool shares = rank == first || rank == last;
      Communicator sharers = mesh.template communicator<axis::Pipeline>().split(shares ? 0 : 1, rank, "tied weights");
      if (shares) shared_.push_back({std::move(sharers), holder()->table().get()});
    }
  }
  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;

  const GptConfig& config() const { return config_; }
  std::int64_t context() const { return config_.context; }

  /// The stages of this rank, by chunk.
  std::vector<Stage*> stages() const {
    std::vector<Stage*> result;
    for (const auto& chunk : chunks_) result.push_back(chunk.get());
    return result;
  }

  template <class F>
  void for_each_parameter(F&& f) {
    for (auto& chunk : chunks_) chunk->for_each_parameter(f);
  }

  /// A parameter that the ranks of `sharers` hold too, on other stages: equal values, and a gradient that is the sum of
  /// theirs.
  struct Shared {
    Communicator sharers;
    Parameter<T, Space>* parameter;
  };
  const std::vector<Shared>& shared() const { return shared_; }

 private:
  Stage* holder() const {
    for (const auto& chunk : chunks_)
      if (chunk->table()) return chunk.get();
    return nullptr;
  }

  GptConfig config_;
  std::vector<std::unique_ptr<Stage>> chunks_;
  std::vector<Shared> shared_;
};

}  // namespace kerkis::nn
