// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/require_same.hpp>
#include <kerkis/mesh/mesh.hpp>
#include <kerkis/nn/generation_stage.hpp>
#include <kerkis/nn/gpt.hpp>
#include <kerkis/pipeline/executor.hpp>
#include <kerkis/schedule/forward_only.hpp>

namespace kerkis::nn {

/// Continues texts by a model as it lies across the ranks. Each token of a text is a microbatch of a pipeline that
/// feeds back: hidden states go from stage to stage, each tensor rank has the logits of its slice of the vocabulary,
/// the last stage chooses, and the first goes on with its choice. With as many prompts as there are stages no rank
/// waits, but once every 64 tokens, when all hear what was chosen.
///
/// The choice is made by Gumbel noise counted by (token, position in the text), so that every plan chooses alike (up to
/// rounding), whatever else is generated together, and a text that is continued twice with one seed is the one that is
/// continued once by as much. Every rank of the mesh calls it, with the same prompts and options, and gets the new
/// tokens; data replicas do the same work. The last `context` tokens of a text are seen. Throws InputError, on every
/// rank, for an empty prompt, one with tokens outside the vocabulary, prompts or options that are not the same on all
/// ranks, or a model whose parameters have no memory yet.
template <class T, class Plan, class Place, class Space>
class Generator {
  static_assert(std::numeric_limits<T>::digits >= 24, "kerkis: tokens go from stage to stage as float or double");

 public:
  using Text = std::vector<std::int32_t>;  ///< tokens

  /// `mesh` and `model` must outlive it.
  Generator(const Mesh<Plan, Place>& mesh, Gpt<T, Plan, Space>& model) : mesh_(mesh), model_(model) {
    require(model_.config().vocabulary <= std::int64_t{1} << 24, "generate: a vocabulary of ",
            model_.config().vocabulary, ", of which float can't tell all tokens apart");
  }

  /// The tokens that continue `prompt`.
  Text operator()(const Context<Space>& context, Text prompt, const GenerateOptions& options) {
    std::vector<Text> one;
    one.push_back(std::move(prompt));
    return std::move(together(context, std::move(one), options).front());
  }

  /// The tokens that continue each of several prompts, which may have different lengths.
  std::vector<Text> together(Context<Space> context, std::vector<Text> prompts, const GenerateOptions& options) {
    std::vector<std::int32_t> words;  // each prompt behind its length
    for (const Text& prompt : prompts) {
      words.push_back(static_cast<std::int32_t>(prompt.size()));
      words.insert(words.end(), prompt.begin(), prompt.end());
    }
    require_same(mesh_.world(), "generate",
                 {{"tokens", message(options.tokens)},
                  {"temperature", message(options.temperature)},
                  {"seed", message(options.seed)},
                  {"the number of prompts", message(prompts.size())},
                  {"the prompts' checksum", message(comm::checksum_of(words.data(), words.size() * sizeof words[0]))}});
    for (const Text& prompt : prompts) {
      require(!prompt.empty(), "generate: the prompt is empty");
      for (const std::int32_t token : prompt)
        require(token >= 0 && token < model_.config().vocabulary, "generate: token ", token,
                " is outside the vocabulary of ", model_.config().vocabulary);
    }
    require(options.tokens >= 0, "generate: ", options.tokens, " tokens");
    require(options.temperature >= 0 && std::isfinite(options.temperature), "generate: a temperature of ",
            options.temperature);
    std::vector<Text> added(prompts.size());
    if (prompts.empty() || options.tokens == 0) return added;
    context.mode = Mode::evaluation;
    generation_ = {options, std::move(prompts), {}};

    const Communicator& pipeline = mesh_.template communicator<axis::Pipeline>();
    const schedule::Table placement = model_.placement();
    const int sequences = static_cast<int>(added.size());
    const std::int64_t tokens = std::min(options.tokens, tokens_of_a_pass);
    auto stages = make_stages(placement, pipeline.rank());
    std::vector<GenerationStage<T, Space>*> pointers;
    for (auto& stage : stages) pointers.push_back(&stage);
    PipelineExecutor<GenerationStage<T, Space>> executor(
        pipeline, schedule::forward_only(placement, sequences * static_cast<int>(tokens), sequences),
        std::move(pointers), model_.context());
    for (std::int64_t done = 0; done < options.tokens; done += tokens)
      pass(executor, context, placement.rank_of(placement.stages() - 1), std::min(tokens, options.tokens - done),
           added);
    return added;
  }

 private:
  /// After which all ranks hear what was chosen. It bounds the table; the pipeline runs empty once per pass.
  static constexpr std::int64_t tokens_of_a_pass = 64;

  std::vector<GenerationStage<T, Space>> make_stages(const schedule::Table& placement, int rank) {
    std::vector<GenerationStage<T, Space>> stages;
    const auto of_model = model_.stages();
    for (int chunk = 0; chunk < placement.chunks(); ++chunk) {
      const int stage = placement.stage(rank, chunk);
      stages.emplace_back(*of_model[static_cast<std::size_t>(chunk)], stage == 0, stage + 1 == placement.stages(),
                          model_.config(), mesh_.template communicator<axis::Tensor>(), generation_);
    }
    return stages;
  }

  /// So many more tokens of each text; `root` has the last stage.
  template <class Executor>
  void pass(Executor& executor, const Context<Space>& context, int root, std::int64_t tokens,
            std::vector<Text>& added) {
    const std::size_t sequences = added.size();
    std::vector<std::size_t> lengths;
    for (const Text& text : generation_.texts) lengths.push_back(text.size());
    std::vector<NextToken> all;
    for (std::int64_t t = 0; t < tokens; ++t)
      for (std::size_t s = 0; s < sequences; ++s)
        all.push_back({.context = model_.context(),
                       .sequence = s,
                       .length = static_cast<std::int64_t>(lengths[s]) + t,
                       .fed = t > 0});
    generation_.chosen.assign(all.size(), 0);
    executor.evaluate(context, all);

    const Kokkos::View<std::int32_t*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> chosen(generation_.chosen.data(),
                                                                                         all.size());
    broadcast(context.execution, mesh_.template communicator<axis::Pipeline>(), chosen, {.root = root}).wait();
    for (std::size_t s = 0; s < sequences; ++s) generation_.texts[s].resize(lengths[s]);
    for (std::size_t m = 0; m < all.size(); ++m) {
      generation_.texts[all[m].sequence].push_back(generation_.chosen[m]);
      added[all[m].sequence].push_back(generation_.chosen[m]);
    }
  }

  const Mesh<Plan, Place>& mesh_;
  Gpt<T, Plan, Space>& model_;
  Generation generation_;
};

}  // namespace kerkis::nn
