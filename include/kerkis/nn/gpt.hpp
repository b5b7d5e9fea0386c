// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <kerkis/comm/require_same.hpp>
#include <kerkis/core/layer_costs.hpp>
#include <kerkis/mesh/mesh.hpp>
#include <kerkis/nn/gpt_stage.hpp>
#include <kerkis/policy/pipeline_options.hpp>
#include <kerkis/schedule/chosen.hpp>
#include <kerkis/schedule/table.hpp>

namespace kerkis::nn {

/// A GPT as it lies on this rank under `Plan`: blocks are spread over the stages, evenly or by what they cost, each
/// block's matrices over the tensor axis. The template is thin: stages and layers know only T and Space. Stays where it
/// is built, since parameters are referred to.
template <class T, class Plan, class Space = Kokkos::DefaultExecutionSpace>
class Gpt {
 public:
  using Element = T;
  using ExecutionSpace = Space;
  using Stage = GptStage<T, Space>;  ///< any of its stages

  /// Collective over the mesh. Throws InputError if the configuration makes no sense, the options do not fit the plan,
  /// or one of them is not the same on every rank.
  template <class Place>
  Gpt(const Mesh<Plan, Place>& mesh, GptConfig config, const PipelineOptions& options = {})
      : config_(same(mesh.world(), config, options)), schedule_(policy::chosen_schedule<Plan>(options)),
        placement_(schedule_.placement({mesh.template extent<axis::Pipeline>(), 1, options.chunks})) {
    config.check();
    require(placement_.well_formed(), "gpt: the schedule ", schedule_.name(), " does not place ", placement_.stages(),
            " stages on ", placement_.ranks(), " ranks");
    const int rank = mesh.template coordinate<axis::Pipeline>(), stages = placement_.stages();
    const std::vector<Range> layers = layers_to_stages(config.layers, stages, options.costs);
    const Recomputation recompute = policy::recomputation<Plan>(options);
    chunks_.resize(static_cast<std::size_t>(placement_.chunks()));
    typename Stage::Table tokens;
    for (int stage = 0; stage < stages; ++stage) {
      if (placement_.rank_of(stage) != rank) continue;
      const auto chunk = static_cast<std::size_t>(placement_.chunk_of(stage));
      chunks_[chunk] =
          std::make_unique<Stage>(config, layers[static_cast<std::size_t>(stage)], stage == 0, stage == stages - 1,
                                  mesh.template communicator<axis::Tensor>(), tokens, recompute);
      if (stage == 0) tokens = chunks_[chunk]->table();
    }
    const int first = placement_.rank_of(0), last = placement_.rank_of(stages - 1);
    if (config.tied && first != last) {
      const bool shares = rank == first || rank == last;
      Communicator sharers = mesh.template communicator<axis::Pipeline>().split(shares ? 0 : 1, rank, "tied weights");
      if (shares) shared_.push_back({std::move(sharers), holder()->table().get()});
    } else if (config.tied && stages > 1 && rank == first) {
      borrowed_.push_back({tokens.get(), placement_.chunk_of(stages - 1)});
    }
  }
  Gpt(const Gpt&) = delete;
  Gpt& operator=(const Gpt&) = delete;

  /// As it was built.
  const GptConfig& config() const { return config_; }
  /// What every rank does in a step of so many microbatches.
  schedule::Table table(int microbatches) const {
    return schedule_.table({placement_.ranks(), microbatches, placement_.chunks()});
  }
  /// Which stage each chunk of each rank is; no actions.
  const schedule::Table& placement() const { return placement_; }
  /// Of the plan's schedule, or of the one that was chosen.
  const std::string& schedule_name() const { return schedule_.name(); }
  /// Tokens of a sequence.
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
    Communicator sharers;            ///< all who hold it, this rank too
    Parameter<T, Space>* parameter;  ///< as this rank holds it
  };
  /// The tied token table, on the ranks of the first and the last stage if these are two.
  const std::vector<Shared>& shared() const { return shared_; }

  /// A parameter that the stage `chunk` of this rank uses too, without naming it: its gradient is complete only when
  /// that stage's are.
  struct Borrowed {
    Parameter<T, Space>* parameter;  ///< another stage of this rank names it
    int chunk;                       ///< the stage that borrows it
  };
  /// The tied token table, if the first and the last stage are two, both on this rank.
  const std::vector<Borrowed>& borrowed() const { return borrowed_; }

 private:
  /// Compares first of all: ranks that differ would build models that do not fit each other, or wait for each other.
  static const GptConfig& same(const Communicator& world, const GptConfig& config, const PipelineOptions& options) {
    std::string costs = message(options.costs.before, " ", options.costs.after);
    for (const double cost : options.costs.layers) costs += message(" ", cost);
    require_same(world, "gpt",
                 {{"layers", message(config.layers)},
                  {"heads", message(config.heads)},
                  {"width", message(config.width)},
                  {"context", message(config.context)},
                  {"vocabulary", message(config.vocabulary)},
                  {"dropout", message(config.dropout)},
                  {"tied", message(config.tied)},
                  {"schedule", options.schedule ? options.schedule->name() : "none"},
                  {"chunks", message(options.chunks)},
                  {"recompute", options.recompute ? message(options.recompute->segment) : "none"},
                  {"costs", std::move(costs)}});
    return config;
  }
  Stage* holder() const {
    for (const auto& chunk : chunks_)
      if (chunk->table()) return chunk.get();
    return nullptr;
  }

  GptConfig config_;
  schedule::Chosen schedule_;
  schedule::Table placement_;
  std::vector<std::unique_ptr<Stage>> chunks_;
  std::vector<Shared> shared_;
  std::vector<Borrowed> borrowed_;
};

}  // namespace kerkis::nn
