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

#include <kerkis/comm/all_gather.hpp>
#include <kerkis/core/error.hpp>
#include <kerkis/core/loss_sum.hpp>
#include <kerkis/core/partition.hpp>
#include <kerkis/core/philox.hpp>
#include <kerkis/nn/gpt_stage.hpp>

namespace kerkis::nn {

/// Of `Generator`. The same on every rank.
struct GenerateOptions {
  std::int64_t tokens = 100;  ///< to add to each prompt
  double temperature = 1;     ///< 0: always the likeliest
  std::uint64_t seed = 1;     ///< prompt i draws with seed + i
};

/// The microbatch of a GenerationStage: one more token for one sequence.
struct NextToken {
  std::int64_t context = 0;       ///< rows that the model computes
  std::size_t sequence = 0;       ///< which of those that are generated together
  std::int64_t length = 0;        ///< of its text before this token, which is its position
  bool fed = false;               ///< the last stage sends the token before it
  std::int64_t first_sample = 0;  ///< of no use here: nothing is dropped

  /// Of every matrix between stages.
  std::int64_t rows() const { return context; }
};

/// What the stages of a rank know of the sequences.
struct Generation {
  GenerateOptions options;                       ///< of this call
  std::vector<std::vector<std::int32_t>> texts;  ///< prompts and tokens; while tokens are fed, on the first stage only
  std::vector<std::int32_t> chosen;              ///< by the last stage, for each microbatch of the pass
};

/// A stage of a GPT that generates: the first one takes the last token of a text, as the last one has chosen it, where
/// `Table::feedback` says. It travels as an Element, in every row of one column.
template <class T, class Space>
class GenerationStage {
 public:
  using Element = T;
  using ExecutionSpace = Space;
  using Microbatch = NextToken;
  using View = Matrix<T, Space>;
  using Saved = typename GptStage<T, Space>::Saved;

  /// Of a model's `stage`, which is the `first` or the `last` or neither. `tensor`: over which its logits are split.
  GenerationStage(GptStage<T, Space>& stage, bool first, bool last, const GptConfig& config, Communicator tensor,
                  Generation& generation)
      : stage_(&stage), first_(first), last_(last), config_(config), tensor_(std::move(tensor)),
        generation_(&generation), window_("kerkis::generate::window", static_cast<std::size_t>(config.context)),
        targets_("kerkis::generate::targets", static_cast<std::size_t>(config.context)) {
    Kokkos::deep_copy(targets_, -1);  // which score nothing
  }

  std::int64_t input_columns() const { return first_ ? 1 : stage_->columns(); }
  std::int64_t output_columns() const { return last_ ? 1 : stage_->columns(); }
  Saved make_saved(std::int64_t rows) { return stage_->make_saved(rows); }

  LossSum forward(Context<Space>& context, const NextToken& next, const View& input, const View& output, Saved& saved) {
    const std::int64_t seen = std::min(next.length, next.context);
    if (first_) {
      auto& text = generation_->texts[next.sequence];
      if (next.fed) text.push_back(token_of(context, input));
      // Positions behind the text hold anything: attention looks back only.
      const auto host = Kokkos::create_mirror_view(window_);
      std::copy(text.end() - seen, text.end(), host.data());
      Kokkos::deep_copy(context.execution, window_, host);
      context.execution.fence("kerkis::generate::window");
    }
    stage_->forward(context, TokenBatch<Space>{window_, targets_, 0}, input, output, saved);
    if (last_) {
      const std::int32_t token =
          choose(context, stage_->logits(saved, next.context), static_cast<std::size_t>(seen - 1), next);
      generation_->chosen[static_cast<std::size_t>(context.microbatch)] = token;
      Kokkos::deep_copy(context.execution, output, static_cast<T>(token));
    }
    return {};
  }

 private:
  using Tokens = Kokkos::View<std::int32_t*, typename Space::memory_space>;
  using HostVector = Kokkos::View<double*, Kokkos::HostSpace>;

  static std::int32_t token_of(const Context<Space>& context, const View& input) {
    T token{};
    Kokkos::deep_copy(context.execution, Kokkos::View<T, Kokkos::HostSpace>(&token), Kokkos::subview(input, 0, 0));
    context.execution.fence("kerkis::generate::token");
    return static_cast<std::int32_t>(token);
  }

  /// The token whose logit + temperature · Gumbel noise is largest: a draw from softmax(logits / temperature) (Gumbel
  /// 1954).
  std::int32_t choose(const Context<Space>& context, const View& logits, std::size_t row, const NextToken& next) const {
    const Range slice = partition(config_.vocabulary, tensor_.size(), tensor_.rank());
    const auto host =
        Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), Kokkos::subview(logits, row, Kokkos::ALL));
    const GenerateOptions& options = generation_->options;
    const Random random(options.seed + next.sequence, stream_of("generate"), static_cast<std::uint32_t>(next.length));
    HostVector mine("kerkis::generate::mine", 2),
        all("kerkis::generate::all", 2 * static_cast<std::size_t>(tensor_.size()));
    mine(0) = -std::numeric_limits<double>::infinity();
    for (std::int64_t token = slice.begin; token < slice.end; ++token) {
      const double noise = -std::log(-std::log((random.bits(static_cast<std::uint64_t>(token)) + 0.5) * 0x1p-32));
      const double score =
          static_cast<double>(host(static_cast<std::size_t>(token - slice.begin))) + options.temperature * noise;
      if (score > mine(0)) mine(0) = score, mine(1) = static_cast<double>(token);
    }
    all_gather(context.execution, tensor_, mine, all).wait();
    std::size_t best = 0;
    for (std::size_t r = 1; r < all.extent(0) / 2; ++r)
      if (all(2 * r) > all(2 * best)) best = r;
    return static_cast<std::int32_t>(all(2 * best + 1));
  }

  GptStage<T, Space>* stage_;
  bool first_, last_;
  GptConfig config_;
  Communicator tensor_;
  Generation* generation_;
  Tokens window_, targets_;
};

}  // namespace kerkis::nn
