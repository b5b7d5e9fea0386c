// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <memory>
#include <vector>

#include <kerkis/comm/communicator.hpp>
#include <kerkis/module/parameter_store.hpp>
#include <kerkis/nn/gpt_stage.hpp>
#include <kerkis/pipeline/stage.hpp>

using Space = Kokkos::DefaultExecutionSpace;
using View = kerkis::Matrix<float, Space>;

struct Size {
  std::int64_t layers = 8, heads = 4, width = 256, context = 128, sequences = 1;  ///< sequences of a microbatch
  std::int64_t rows() const { return context * sequences; }
};

/// What the first stage takes and the last one makes. The loss is the sum of output * slope.
struct Ends {
  explicit Ends(const Size& size)
      : input(kerkis::make_matrix<float, Space>("input", size.rows(), size.width)),
        output(kerkis::make_matrix<float, Space>("output", size.rows(), size.width)),
        slope(kerkis::make_matrix<float, Space>("slope", size.rows(), size.width)),
        input_gradient(kerkis::make_matrix<float, Space>("input_gradient", size.rows(), size.width)) {
    for (std::size_t r = 0; r < input.extent(0); ++r)
      for (std::size_t c = 0; c < input.extent(1); ++c) {
        input(r, c) = static_cast<float>((r * 7 + c * 13) % 101) / 50 - 1;
        slope(r, c) = static_cast<float>((r * 11 + c * 5) % 103) / 5000 - 0.01f;
      }
  }
  View input, output, slope, input_gradient;
};

struct Product {
  View a, b;
  KOKKOS_FUNCTION void operator()(std::int64_t row, double& sum) const {
    for (std::size_t c = 0; c < a.extent(1); ++c)
      sum += static_cast<double>(a(static_cast<std::size_t>(row), c)) * b(static_cast<std::size_t>(row), c);
  }
};

/// A stage of transformer blocks and nothing else, so that all stages do the same work.
class Blocks {
 public:
  using Element = float;
  using ExecutionSpace = Space;
  using Layers = kerkis::nn::GptStage<float, Space>;
  using Microbatch = Layers::Microbatch;
  using Saved = Layers::Saved;

  Blocks(Layers& layers, const Ends& ends, bool first, bool last)
      : layers_(&layers), ends_(ends), first_(first), last_(last) {}

  std::int64_t columns() const { return layers_->columns(); }
  Saved make_saved(std::int64_t rows) { return layers_->make_saved(rows); }

  kerkis::LossSum forward(kerkis::Context<Space>& context, const Microbatch& microbatch, const View& input,
                          const View& output, Saved& saved) {
    layers_->forward(context, microbatch, first_ ? ends_.input : input, last_ ? ends_.output : output, saved);
    return last_ ? loss(context, microbatch.rows()) : kerkis::LossSum{};
  }
  template <class Ready>
  void backward(kerkis::Context<Space>& context, const Microbatch& microbatch, const View& output_gradient,
                const View& input_gradient, Saved& saved, Ready&& ready) {
    layers_->backward(context, microbatch, last_ ? ends_.slope : output_gradient,
                      first_ ? ends_.input_gradient : input_gradient, saved, ready);
  }
  void backward_input(kerkis::Context<Space>& context, const Microbatch& microbatch, const View& output_gradient,
                      const View& input_gradient, Saved& saved) {
    layers_->backward_input(context, microbatch, last_ ? ends_.slope : output_gradient,
                            first_ ? ends_.input_gradient : input_gradient, saved);
  }
  template <class Ready>
  void backward_weight(kerkis::Context<Space>& context, const Microbatch& microbatch, Saved& saved, Ready&& ready) {
    layers_->backward_weight(context, microbatch, saved, ready);
  }

 private:
  kerkis::LossSum loss(kerkis::Context<Space>& context, std::int64_t rows) const {
    double sum = 0;
    Kokkos::parallel_reduce("bench::loss",
                            Kokkos::RangePolicy<Space, Kokkos::IndexType<std::int64_t>>(context.execution, 0, rows),
                            Product{ends_.output, ends_.slope}, sum);
    return {sum, static_cast<double>(rows)};
  }

  Layers* layers_;
  Ends ends_;
  bool first_, last_;
};
static_assert(kerkis::PipelineStage<Blocks>);

/// The layers of one rank, as equal stages.
class Model {
 public:
  Model(const Size& size, int ranks, int chunks) {
    const kerkis::nn::GptConfig config{
        .layers = size.layers, .heads = size.heads, .width = size.width, .context = size.context, .vocabulary = 256};
    for (int chunk = 0; chunk < chunks; ++chunk)
      chunks_.push_back(std::make_unique<Blocks::Layers>(
          config, kerkis::Range{chunk * size.layers / (ranks * chunks), (chunk + 1) * size.layers / (ranks * chunks)},
          false, false, kerkis::Communicator(), nullptr));
    store_ = std::make_unique<kerkis::ParameterStore<float, Space>>(*this, 0);
    store_->initialise(1);
  }

  template <class F>
  void for_each_parameter(F&& f) {
    for (auto& chunk : chunks_) chunk->for_each_parameter(f);
  }
  int chunks() const { return static_cast<int>(chunks_.size()); }
  Blocks::Layers& chunk(int number) const { return *chunks_[static_cast<std::size_t>(number)]; }

 private:
  std::vector<std::unique_ptr<Blocks::Layers>> chunks_;
  std::unique_ptr<kerkis::ParameterStore<float, Space>> store_;
};

/// A stage that does nothing, with matrices of one number.
struct Idle {
  using Element = float;
  using ExecutionSpace = Space;
  struct Microbatch {
    std::int64_t first_sample = 0;
    std::int64_t rows() const { return 1; }
  };
  using Saved = kerkis::Saved<int, int>;

  std::int64_t columns() const { return 1; }
  Saved make_saved(std::int64_t) const { return {}; }
  kerkis::LossSum forward(kerkis::Context<Space>&, const Microbatch&, const View&, const View&, Saved&) { return {}; }
  void backward_input(kerkis::Context<Space>&, const Microbatch&, const View&, const View&, Saved&) {}
  template <class Ready>
  void backward_weight(kerkis::Context<Space>&, const Microbatch&, Saved&, Ready&&) {}
  template <class Ready>
  void backward(kerkis::Context<Space>&, const Microbatch&, const View&, const View&, Saved&, Ready&&) {}
};
static_assert(kerkis::PipelineStage<Idle>);
