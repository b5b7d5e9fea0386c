// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/core/partition.hpp>
#include <kerkis/core/philox.hpp>
#include <kerkis/mesh/mesh.hpp>
#include <kerkis/nn/gpt.hpp>

namespace kerkis::nn {

/// Of `generate`. The same on every rank.
struct GenerateOptions {
  std::int64_t tokens = 100;  ///< to add
  double temperature = 1;     ///< 0: always the likeliest
  std::uint64_t seed = 1;
};

/// Continues `prompt` by a model as it lies across the ranks: hidden states go from stage to stage, each tensor rank
/// has the logits of its slice of the vocabulary, and the choice is made by Gumbel noise counted by (token, position),
/// so that every plan chooses alike (up to rounding). Every rank of the mesh calls it and gets the new tokens; data
/// replicas do the same work. The last `context` tokens are seen.
template <class T, class Plan, class Place, class Space>
class Generator {
 public:
  Generator(const Mesh<Plan, Place>& mesh, Gpt<T, Plan, Space>& model)
      : mesh_(mesh), model_(model), table_(model.placement()) {
    const std::int64_t rows = model_.context();
    for (auto* stage : model_.stages()) saved_.push_back(stage->make_saved(rows));
    input_ = make_matrix<T, Space>("kerkis::generate::input", rows, model_.config().width);
    output_ = make_matrix<T, Space>("kerkis::generate::output", rows, model_.config().width);
    window_ = Kokkos::View<std::int32_t*, typename Space::memory_space>("kerkis::generate::window",
                                                                        static_cast<std::size_t>(rows));
  }

  std::vector<std::int32_t> operator()(Context<Space> context, std::vector<std::int32_t> prompt,
                                       const GenerateOptions& options) {
    require(!prompt.empty(), "generate: the prompt is empty");
    for (const std::int32_t token : prompt)
      require(token >= 0 && token < model_.config().vocabulary, "generate: token ", token,
              " is outside the vocabulary of ", model_.config().vocabulary);
    require(options.temperature >= 0 && std::isfinite(options.temperature), "generate: a temperature of ",
            options.temperature);
    context.mode = Mode::evaluation;
    context.first_sample = 0;
    std::vector<std::int32_t> text = std::move(prompt);
    const std::size_t begin = text.size();
    for (std::int64_t n = 0; n < options.tokens; ++n) text.push_back(next(context, text, options, n));
    return {text.begin() + static_cast<std::ptrdiff_t>(begin), text.end()};
  }

 private:
  using Stage = GptStage<T, Space>;
  using HostVector = Kokkos::View<double*, Kokkos::HostSpace>;

  std::int32_t next(Context<Space>& context, const std::vector<std::int32_t>& text, const GenerateOptions& options,
                    std::int64_t n) {
    // Positions behind the text hold anything: attention looks back only.
    const std::size_t seen = std::min(text.size(), static_cast<std::size_t>(model_.context()));
    const auto host = Kokkos::create_mirror_view(window_);
    for (std::size_t t = 0; t < seen; ++t) host(t) = text[text.size() - seen + t];
    Kokkos::deep_copy(window_, host);

    const Communicator& pipeline = mesh_.template communicator<axis::Pipeline>();
    const auto stages = model_.stages();
    HostVector choice("kerkis::generate::choice", 1);
    for (int s = 0; s < table_.stages(); ++s) {
      if (table_.rank_of(s) != pipeline.rank()) continue;
      Stage& stage = *stages[static_cast<std::size_t>(table_.chunk_of(s))];
      auto& saved = saved_[static_cast<std::size_t>(table_.chunk_of(s))];
      if (s > 0) {
        if (table_.rank_of(s - 1) != pipeline.rank())
          receive(context.execution, pipeline, input_, {.from = table_.rank_of(s - 1), .tag = s - 1}).wait();
        else
          std::swap(input_, output_);
      }
      const TokenBatch<Space> batch{window_, no_targets(), 0};
      stage.forward(context, batch, input_, output_, saved);
      if (s + 1 < table_.stages()) {
        if (table_.rank_of(s + 1) != pipeline.rank())
          send(context.execution, pipeline, output_, {.to = table_.rank_of(s + 1), .tag = s}).wait();
      } else {
        choice(0) = choose(context, stage.logits(saved, model_.context()), seen - 1, options, n);
      }
    }
    broadcast(context.execution, pipeline, choice, {.root = table_.rank_of(table_.stages() - 1)}).wait();
    return static_cast<std::int32_t>(choice(0));
  }

  /// The token whose logit + temperature · Gumbel noise is largest: a draw from softmax(logits / temperature) (Gumbel
  /// 1954).
  double choose(Context<Space>& context, const Matrix<T, Space>& logits, std::size_t row,
                const GenerateOptions& options, std::int64_t n) const {
    const Communicator& tensor = mesh_.template communicator<axis::Tensor>();
    const Range slice = partition(model_.config().vocabulary, tensor.size(), tensor.rank());
    const auto device = Kokkos::subview(logits, row, Kokkos::ALL);
    const auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), device);
    const Random random(options.seed, stream_of("generate"), static_cast<std::uint32_t>(n));
    HostVector mine("kerkis::generate::mine", 2),
        all("kerkis::generate::all", 2 * static_cast<std::size_t>(tensor.size()));
    mine(0) = -std::numeric_limits<double>::infinity();
    for (std::int64_t token = slice.begin; token < slice.end; ++token) {
      const double noise = -std::log(-std::log((random.bits(static_cast<std::uint64_t>(token)) + 0.5) * 0x1p-32));
      const double score =
          static_cast<double>(host(static_cast<std::size_t>(token - slice.begin))) + options.temperature * noise;
      if (score > mine(0)) mine(0) = score, mine(1) = static_cast<double>(token);
    }
    all_gather(context.execution, tensor, mine, all).wait();
    std::size_t best = 0;
    for (std::size_t r = 1; r < all.extent(0) / 2; ++r)
      if (all(2 * r) > all(2 * best)) best = r;
    return all(2 * best + 1);
  }

  /// Targets that score nothing.
  typename TokenBatch<Space>::Tokens no_targets() {
    if (targets_.extent(0) == 0) {
      targets_ =
          Kokkos::View<std::int32_t*, typename Space::memory_space>("kerkis::generate::targets", window_.extent(0));
      Kokkos::deep_copy(targets_, -1);
    }
    return targets_;
  }

  const Mesh<Plan, Place>& mesh_;
  Gpt<T, Plan, Space>& model_;
  schedule::Table table_;
  std::vector<typename Stage::Saved> saved_;
  Matrix<T, Space> input_, output_;
  Kokkos::View<std::int32_t*, typename Space::memory_space> window_, targets_;
};

}  // namespace kerkis::nn
