// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <kerkis/comm/communicator.hpp>
#include <kerkis/comm/mpi.hpp>
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
#include <kerkis/policy/recompute.hpp>

namespace kerkis::nn {

/// One pipeline stage of a GPT: some of its blocks, with the embedding if it is the first and the head and the loss if
/// it is the last. It may have none of all these, and then hands on what it gets.
///
/// Under recomputation a microbatch keeps the inputs of its segments; forward, and backward as one block, work in
/// memory that all microbatches share. Between backward_input and backward_weight a microbatch has a SavedWeight out of
/// a store that grows to what the schedule needs in the first step.
template <class T, class Space = Kokkos::DefaultExecutionSpace>
class GptStage {
 public:
  using Element = T;
  using ExecutionSpace = Space;
  using Microbatch = TokenBatch<Space>;
  using View = Matrix<T, Space>;
  using Table = std::shared_ptr<Parameter<T, Space>>;  ///< of tokens, which two layers may share
  using Block = TransformerBlock<T, Space>;            ///< of which a stage has some

  /// `hidden[i]`: the input of block i (behind the blocks: of the head), where this stage writes and keeps it.
  struct SavedInput {
    View input;  ///< the caller's
    std::vector<View> hidden;
    std::vector<typename Block::SavedInput> blocks;
    typename Dropout<T, Space>::Saved dropout;
    std::optional<typename Head<T, Space>::SavedInput> head;
  };
  struct SavedWeight {
    View embedding_gradient;  ///< of the embedding's output
    std::vector<typename Block::SavedWeight> blocks;
    std::optional<typename Head<T, Space>::SavedWeight> head;
    bool is_made = false;
  };
  using Saved = kerkis::Saved<SavedInput, SavedWeight>;

  /// `layers`: the blocks held here, by global number. `table`: the token table to tie the head to, if another stage of
  /// this rank has it; without it a last stage with tied weights that is not the first holds a copy, which the model
  /// keeps equal.
  GptStage(const GptConfig& config, Range layers, bool first, bool last, const Communicator& tensor, Table table,
           Recomputation recompute = {})
      : config_(config), tensor_(tensor), recomputes_(recompute.segment > 0),
        longest_(static_cast<std::size_t>(recomputes_ ? std::min(recompute.segment, layers.size()) : layers.size())),
        loss_(config.vocabulary, tensor) {
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

  GptStage(const GptStage&) = delete;
  GptStage& operator=(const GptStage&) = delete;
  /// After a failure MPI may still write to the buffers: they are leaked.
  ~GptStage() {
    if (!tensor_.poisoned()) return;
    comm::leak(std::move(shared_));
    comm::leak(std::move(store_));
  }

  /// The token table held here, by the embedding or as the copy of a tied head; null if there is none.
  Table table() const { return embedding_ ? embedding_->table() : copy_; }
  /// Of the matrices between stages.
  std::int64_t columns() const { return config_.width; }

  template <class F>
  void for_each_parameter(F&& f) {
    if (embedding_) embedding_->for_each_parameter(f);
    for (auto& block : blocks_) block->for_each_parameter(f);
    if (copy_) f(*copy_);
    if (head_) head_->for_each_parameter(f);
  }

  /// Throws InputError if its parameters have no memory yet.
  Saved make_saved(std::int64_t rows) {
    require_memory(*this);
    Saved saved;
    saved.input.hidden.resize(blocks_.size() + 1);
    for (std::size_t b = 0; b <= blocks_.size(); ++b)
      if (writes(b) && keeps(b)) saved.input.hidden[b] = hidden_matrix(rows);
    if (!recomputes_) {
      make_layers(rows, blocks_.size(), saved.input, saved.weight);
    } else if (rows > shared_rows_) {
      shared_rows_ = rows;
      store_.clear();
      shared_ = {};
      shared_.input.hidden.resize(longest_ + 1);
      for (std::size_t i = 0; i <= longest_; ++i)
        if (i > 0 ? i < longest_ || head_ : embedding_ && (!blocks_.empty() || head_))
          shared_.input.hidden[i] = hidden_matrix(rows);
      make_layers(rows, longest_, shared_.input, shared_.weight);
    }
    return saved;
  }

  LossSum forward(Context<Space>& context, const Microbatch& microbatch, const View& input, const View& output,
                  Saved& saved) {
    if (embedding_) microbatch.check_tokens(context.execution, config_.vocabulary);
    if (head_) microbatch.check_targets(context.execution, config_.vocabulary);
    saved.input.input = first_rows(input, microbatch.rows());
    LossSum loss;
    std::size_t begin = 0;
    do {
      const std::size_t end = std::min(begin + longest_, blocks_.size());
      loss = forward(context, microbatch, Segment(begin, end, saved, *this, true), output, false);
      begin = end;
    } while (begin < blocks_.size());
    return loss;
  }

  template <class Ready>
  void backward(Context<Space>& context, const Microbatch& microbatch, const View& output_gradient,
                const View& input_gradient, Saved& saved, Ready&& ready) {
    walk(context, microbatch, output_gradient, input_gradient, saved, true, ready);
    if (embedding_) finish_embedding(context, microbatch, recomputes_ ? shared_.weight : saved.weight, ready);
  }

  void backward_input(Context<Space>& context, const Microbatch& microbatch, const View& output_gradient,
                      const View& input_gradient, Saved& saved) {
    if (!saved.weight.is_made) {
      if (store_.empty()) {
        SavedInput none;
        make_layers(shared_rows_, blocks_.size(), none, saved.weight);
      } else {
        saved.weight = std::move(store_.back());
        store_.pop_back();
      }
    }
    walk(context, microbatch, output_gradient, input_gradient, saved, false, [](const auto&) {});
  }

  template <class Ready>
  void backward_weight(Context<Space>& context, const Microbatch& microbatch, Saved& saved, Ready&& ready) {
    SavedWeight& weight = saved.weight;
    if (head_) head_->backward_weight(context, *weight.head), with_first_parameter(*head_, ready);
    for (std::size_t b = blocks_.size(); b-- > 0;) {
      blocks_[b]->backward_weight(context, weight.blocks[b]);
      with_first_parameter(*blocks_[b], ready);
      context.poll();
    }
    if (embedding_) finish_embedding(context, microbatch, weight, ready);
    if (recomputes_) store_.push_back(std::exchange(weight, {}));
  }

  /// After `forward`: the logits of the last stage, rows × the vocabulary held here.
  View logits(Saved& saved, std::int64_t rows) {
    return head_->logits(*(recomputes_ ? shared_ : saved).weight.head, rows);
  }

 private:
  /// The blocks [begin, end), with the embedding if they are the first and the head if they are the last, and where
  /// their activations lie.
  struct Segment {
    Segment(std::size_t from, std::size_t to, Saved& of, GptStage& stage, bool shares_weight)
        : begin(from), end(to), saved(of), input(stage.recomputes_ ? stage.shared_.input : of.input),
          weight(stage.recomputes_ && shares_weight ? stage.shared_.weight : of.weight),
          first_input(stage.recomputes_ ? begin : 0), first_weight(stage.recomputes_ && shares_weight ? begin : 0) {}

    auto& input_of(std::size_t block) const { return input.blocks[block - first_input]; }
    auto& weight_of(std::size_t block) const { return weight.blocks[block - first_weight]; }

    std::size_t begin, end;
    Saved& saved;
    SavedInput& input;
    SavedWeight& weight;
    std::size_t first_input, first_weight;
  };

  /// Whether the input of block b (behind the blocks: of the head) is made here, rather than by the caller or for it.
  bool writes(std::size_t b) const { return (b > 0 || embedding_) && (b < blocks_.size() || head_); }
  /// Whether each microbatch keeps it.
  bool keeps(std::size_t b) const { return !recomputes_ || (b > 0 && b < blocks_.size() && b % longest_ == 0); }

  View hidden_matrix(std::int64_t rows) const { return make_matrix<T, Space>("kerkis::gpt::hidden", rows, columns()); }
  void make_layers(std::int64_t rows, std::size_t blocks, SavedInput& input, SavedWeight& weight) {
    if (embedding_)
      weight.embedding_gradient = make_matrix<T, Space>("kerkis::gpt::embedding_gradient", rows, columns());
    for (std::size_t b = 0; b < blocks; ++b) {
      auto made = blocks_[b]->make_saved(rows);
      input.blocks.push_back(std::move(made.input));
      weight.blocks.push_back(std::move(made.weight));
    }
    if (head_) {
      auto made = head_->make_saved(rows);
      input.head.emplace(std::move(made.input));
      weight.head.emplace(std::move(made.weight));
    }
    weight.is_made = true;
  }

  /// Where the input of block b lies.
  View place(const Segment& segment, std::size_t b, const View& output, std::int64_t rows) const {
    if (b == blocks_.size() && !head_) return output;
    if (b == 0 && !embedding_) return segment.saved.input.input;
    return first_rows(keeps(b) ? segment.saved.input.hidden[b] : segment.input.hidden[b - segment.first_input], rows);
  }

  /// Again: what the segment hands to the next is known, and not written once more.
  LossSum forward(Context<Space>& context, const Microbatch& microbatch, const Segment& segment, const View& output,
                  bool again) {
    const std::int64_t rows = microbatch.rows();
    const bool with_head = segment.end == blocks_.size() && head_;
    if (segment.begin == 0 && embedding_ && (!again || segment.end > 0 || with_head)) {
      const View embedded = place(segment, 0, output, rows);
      embedding_->forward(context, microbatch.tokens, embedded);
      if (dropout_) dropout_->forward(context, embedded, embedded, segment.saved.input.dropout);
    }
    for (std::size_t b = segment.begin; b < segment.end; ++b) {
      const View input = place(segment, b, output, rows);
      if (again && b + 1 == segment.end && !with_head)
        blocks_[b]->recompute(context, input, segment.input_of(b), segment.weight_of(b));
      else
        blocks_[b]->forward(context, input, place(segment, b + 1, output, rows), segment.input_of(b),
                            segment.weight_of(b));
      context.poll();
    }
    if (!with_head) {
      if (blocks_.empty() && !embedding_ && !again)
        Kokkos::deep_copy(context.execution, output, segment.saved.input.input);
      return {};
    }
    auto& kept = *segment.weight.head;
    const View logits = head_->logits(kept, rows);
    head_->forward(context, place(segment, blocks_.size(), output, rows), logits, *segment.input.head, kept);
    return context.mode == Mode::training && (again || !recomputes_)
               ? loss_.forward_backward(context, logits, microbatch.targets)
               : loss_.forward(context, logits, microbatch.targets);
  }

  /// The backward pass from the stage's output to its input, with each layer's weights at once if `weights`.
  template <class Ready>
  void walk(Context<Space>& context, const Microbatch& microbatch, const View& output_gradient,
            const View& input_gradient, Saved& saved, bool weights, Ready&& ready) {
    const std::int64_t rows = microbatch.rows();
    auto scope = context.workspace.scope();
    const View scratch[2] = {scope.template take<T>(rows, columns()), scope.template take<T>(rows, columns())};
    // The last matrix written is the input gradient, or what the embedding takes.
    const std::size_t steps = blocks_.size() + (head_ ? 1 : 0);
    const SavedWeight& first = recomputes_ && weights ? shared_.weight : saved.weight;
    const View final = embedding_ ? first_rows(first.embedding_gradient, rows) : input_gradient;
    std::size_t done = 0;
    View current = output_gradient;
    const auto next = [&] { return ++done == steps ? final : scratch[done % 2]; };

    std::size_t begin = blocks_.size();
    do {
      const std::size_t end = begin;
      begin = end == 0 ? 0 : (end - 1) / longest_ * longest_;
      const Segment segment(begin, end, saved, *this, weights);
      if (recomputes_) forward(context, microbatch, segment, {}, true);
      if (head_ && end == blocks_.size()) {
        const View target = next();
        auto& kept = *segment.weight.head;
        head_->backward_input(context, head_->logits(kept, rows), target, *segment.input.head, kept);
        if (weights) head_->backward_weight(context, kept), with_first_parameter(*head_, ready);
        current = target;
      }
      for (std::size_t b = end; b-- > begin;) {
        const View target = next();
        blocks_[b]->backward_input(context, current, target, segment.input_of(b), segment.weight_of(b));
        if (weights)
          blocks_[b]->backward_weight(context, segment.weight_of(b)), with_first_parameter(*blocks_[b], ready);
        current = target;
        context.poll();
      }
    } while (begin > 0);
    if (steps == 0) Kokkos::deep_copy(context.execution, final, current);
    if (dropout_) dropout_->backward_input(context, final, final, saved.input.dropout);
  }

  template <class Ready>
  void finish_embedding(Context<Space>& context, const Microbatch& microbatch, const SavedWeight& weight,
                        Ready&& ready) {
    embedding_->backward(context, microbatch.tokens, first_rows(weight.embedding_gradient, microbatch.rows()));
    with_first_parameter(*embedding_, ready);
  }

  GptConfig config_;
  Communicator tensor_;
  bool recomputes_;
  std::size_t longest_;  // segment, in blocks
  std::optional<Embedding<T, Space>> embedding_;
  std::optional<Dropout<T, Space>> dropout_;
  std::vector<std::unique_ptr<Block>> blocks_;  // parameters stay where they are
  Table copy_;
  std::optional<Head<T, Space>> head_;
  CrossEntropy<T, Space> loss_;
  Saved shared_;  // by all microbatches, under recomputation
  std::int64_t shared_rows_ = 0;
  std::vector<SavedWeight> store_;
};

}  // namespace kerkis::nn
