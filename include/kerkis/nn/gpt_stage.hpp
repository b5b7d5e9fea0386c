// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <kerkis/core/partition.hpp>
#include <kerkis/core/loss_sum.hpp>
#include <kerkis/module/module.hpp>
#include <kerkis/nn/cross_entropy.hpp>
#include <kerkis/nn/dropout.hpp>
#include <kerkis/nn/embedding.hpp>
#include <kerkis/nn/gpt_config.hpp>
#include <kerkis/nn/head.hpp>
#include <kerkis/nn/token_batch.hpp>
#include <kerkis/nn/transformer_block.hpp>

namespace kerkis::nn {

/// One pipeline stage of a GPT: some of its blocks, with the embedding if it is the first and the head and the loss if
/// it is the last.
template <class T, class Space = Kokkos::DefaultExecutionSpace>
class GptStage {
 public:
  using Element = T;
  using ExecutionSpace = Space;
  using Microbatch = TokenBatch<Space>;
  using View = Matrix<T, Space>;
  using Table = std::shared_ptr<Parameter<T, Space>>;
  using Block = TransformerBlock<T, Space>;

  struct SavedInput {};
  struct SavedWeight {
    std::vector<View> hidden;  ///< outputs of embedding and blocks, as far as the stage's own output does not take them
    View embedding_gradient;   ///< of the embedding's output
    std::vector<typename Block::Saved> blocks;
    std::optional<typename Dropout<T, Space>::Saved> dropout;
    std::optional<typename Head<T, Space>::Saved> head;
  };
  using Saved = kerkis::Saved<SavedInput, SavedWeight>;

  /// `layers`: the blocks held here, by global number. `table`: the token table to tie the head to, if another stage of
  /// this rank has it; without it a last stage with tied weights that is not the first holds a copy, which the model
  /// keeps equal.
  GptStage(const GptConfig& config, Range layers, bool first, bool last, const Communicator& tensor, Table table)
      : config_(config), loss_(config.vocabulary, tensor) {
    if (first) {
      embedding_.emplace(
          "embedding",
          EmbeddingOptions{.vocabulary = config.vocabulary, .width = config.width, .context_length = config.context},
          tensor);
      table = embedding_->table();
      if (config.dropout > 0)
        dropout_.emplace(
            "embedding.dropout",
            DropoutOptions{.rate = config.dropout, .columns = config.width, .rows_per_sample = config.context});
    }
    for (std::int64_t layer = layers.begin; layer < layers.end; ++layer)
      blocks_.push_back(std::make_unique<Block>(message("blocks.", layer),
                                                BlockOptions{.width = config.width,
                                                             .heads = config.heads,
                                                             .context_length = config.context,
                                                             .layers = config.layers,
                                                             .dropout = config.dropout},
                                                tensor));
    if (last) {
      const HeadOptions options{.width = config.width, .vocabulary = config.vocabulary};
      if (config.tied && !table) {
        copy_ = std::make_shared<Parameter<T, Space>>(
            Embedding<T, Space>::make_table("embedding.tokens", config.vocabulary, config.width, tensor));
        copy_->counted = false;
        table = copy_;
      }
      if (config.tied)
        head_.emplace("head", options, table, tensor);
      else
        head_.emplace("head", options, tensor);
    }
  }

  /// The token table held here, by the embedding or as the copy of a tied head; null if there is none.
  Table table() const { return embedding_ ? embedding_->table() : copy_; }
  std::int64_t columns() const { return config_.width; }

  template <class F>
  void for_each_parameter(F&& f) {
    if (embedding_) embedding_->for_each_parameter(f);
    for (auto& block : blocks_) block->for_each_parameter(f);
    if (copy_) f(*copy_);
    if (head_) head_->for_each_parameter(f);
  }

  Saved make_saved(std::int64_t rows) const {
    Saved saved;
    SavedWeight& kept = saved.weight;
    for (std::size_t i = 0; i + (head_ ? 0 : 1) < outputs(); ++i)
      kept.hidden.push_back(make_matrix<T, Space>("kerkis::gpt::hidden", rows, columns()));
    if (embedding_) kept.embedding_gradient = make_matrix<T, Space>("kerkis::gpt::embedding_gradient", rows, columns());
    for (const auto& block : blocks_) kept.blocks.push_back(block->make_saved(rows));
    if (dropout_) kept.dropout.emplace(dropout_->make_saved(rows));
    if (head_) kept.head.emplace(head_->make_saved(rows));
    return saved;
  }

  LossSum forward(Context<Space>& context, const Microbatch& microbatch, const View& input, const View& output,
                  Saved& saved) {
    const std::int64_t rows = microbatch.rows();
    SavedWeight& kept = saved.weight;
    if (embedding_) microbatch.check_tokens(context.execution, config_.vocabulary);
    if (head_) microbatch.check_targets(context.execution, config_.vocabulary);
    std::size_t written = 0;
    const auto next = [&] {
      return ++written == outputs() && !head_ ? output : first_rows(kept.hidden[written - 1], rows);
    };
    View current = input;
    if (embedding_) {
      current = next();
      embedding_->forward(context, microbatch.tokens, current);
      if (dropout_) {
        const View dropped = next();
        dropout_->forward(context, current, dropped, *kept.dropout);
        current = dropped;
      }
    }
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      const View target = next();
      blocks_[b]->forward(context, current, target, kept.blocks[b]);
      current = target;
      context.poll();
    }
    if (!head_) {
      if (current.data() != output.data())
        Kokkos::deep_copy(context.execution, output, current);  // a stage without layers
      return {};
    }
    const View logits = head_->logits(*kept.head, rows);
    head_->forward(context, current, logits, *kept.head);
    return context.mode == Mode::training ? loss_.forward_backward(context, logits, microbatch.targets)
                                          : loss_.forward(context, logits, microbatch.targets);
  }

  template <class Ready>
  void backward(Context<Space>& context, const Microbatch& microbatch, const View& output_gradient,
                const View& input_gradient, Saved& saved, Ready&& ready) {
    walk(context, microbatch, output_gradient, input_gradient, saved, true, ready);
    if (embedding_) finish_embedding(context, microbatch, saved, ready);
  }

  void backward_input(Context<Space>& context, const Microbatch& microbatch, const View& output_gradient,
                      const View& input_gradient, Saved& saved) {
    walk(context, microbatch, output_gradient, input_gradient, saved, false, [](const auto&) {});
  }

  template <class Ready>
  void backward_weight(Context<Space>& context, const Microbatch& microbatch, Saved& saved, Ready&& ready) {
    if (head_) head_->backward_weight(context, *saved.weight.head), tell_first(*head_, ready);
    for (std::size_t b = blocks_.size(); b-- > 0;) {
      blocks_[b]->backward_weight(context, saved.weight.blocks[b]);
      tell_first(*blocks_[b], ready);
      context.poll();
    }
    if (embedding_) finish_embedding(context, microbatch, saved, ready);
  }

  /// After `forward`: the logits of the last stage, rows × the vocabulary held here.
  View logits(Saved& saved, std::int64_t rows) { return head_->logits(*saved.weight.head, rows); }

 private:
  /// How many matrices of hidden states embedding, dropout and blocks write.
  std::size_t outputs() const { return blocks_.size() + (embedding_ ? 1 : 0) + (dropout_ ? 1 : 0); }

  /// The backward pass from the stage's output to its input, with each layer's weights at once if `weights`.
  template <class Ready>
  void walk(Context<Space>& context, const Microbatch& microbatch, const View& output_gradient,
            const View& input_gradient, Saved& saved, bool weights, Ready&& ready) {
    const std::int64_t rows = microbatch.rows();
    SavedWeight& kept = saved.weight;
    auto scope = context.workspace.scope();
    const View scratch[2] = {scope.template take<T>(rows, columns()), scope.template take<T>(rows, columns())};
    // The last matrix written is the input gradient, or what the embedding takes.
    const std::size_t steps = blocks_.size() + (head_ ? 1 : 0) + (dropout_ ? 1 : 0);
    const View final = embedding_ ? first_rows(kept.embedding_gradient, rows) : input_gradient;
    std::size_t done = 0;
    View current = output_gradient;
    const auto next = [&] { return ++done == steps ? final : scratch[done % 2]; };

    if (head_) {
      const View target = next();
      head_->backward_input(context, head_->logits(*kept.head, rows), target, *kept.head);
      if (weights) head_->backward_weight(context, *kept.head), tell_first(*head_, ready);
      current = target;
    }
    for (std::size_t b = blocks_.size(); b-- > 0;) {
      const View target = next();
      blocks_[b]->backward_input(context, current, target, kept.blocks[b]);
      if (weights) blocks_[b]->backward_weight(context, kept.blocks[b]), tell_first(*blocks_[b], ready);
      current = target;
      context.poll();
    }
    if (dropout_) {
      const View target = next();
      dropout_->backward_input(context, current, target, *kept.dropout);
      current = target;
    }
    if (steps == 0) Kokkos::deep_copy(context.execution, final, current);
  }

  template <class Ready>
  void finish_embedding(Context<Space>& context, const Microbatch& microbatch, Saved& saved, Ready&& ready) {
    embedding_->backward(context, microbatch.tokens, first_rows(saved.weight.embedding_gradient, microbatch.rows()));
    tell_first(*embedding_, ready);
  }

  /// Calls `ready` with the first parameter that `layer` declares.
  template <class Layer, class Ready>
  static void tell_first(Layer& layer, Ready&& ready) {
    bool told = false;
    layer.for_each_parameter([&](const auto& parameter) {
      if (!std::exchange(told, true)) ready(parameter);
    });
  }

  GptConfig config_;
  std::optional<Embedding<T, Space>> embedding_;
  std::optional<Dropout<T, Space>> dropout_;
  std::vector<std::unique_ptr<Block>> blocks_;  // parameters stay where they are
  Table copy_;
  std::optional<Head<T, Space>> head_;
  CrossEntropy<T, Space> loss_;
};

}  // namespace kerkis::nn
