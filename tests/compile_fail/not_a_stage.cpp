// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: a PipelineExecutor runs stages: classes with the members that ForwardStage
// EXPECT 2: a PipelineExecutor runs stages: classes with the members that ForwardStage
// EXPECT 3: to be trained, a stage has backward, backward_input and backward_weight
#include <kerkis/pipeline/executor.hpp>

#include <span>
#include <type_traits>

using Space = Kokkos::DefaultHostExecutionSpace;
using Context = kerkis::Context<Space>;
using Vector = Kokkos::View<double*, Space>;

struct Sample {
  std::int64_t first_sample = 0;
  std::int64_t rows() const { return 1; }
};

/// Halves what it gets.
struct Half {
  using Element = double;
  using ExecutionSpace = Space;
  using Microbatch = Sample;
  using Matrix = std::conditional_t<KERKIS_MISTAKE == 2, Vector, kerkis::Matrix<double, Space>>;

  std::int64_t columns() const { return 1; }
  void forward(Context&, const Sample&, const Matrix& input, const Matrix& output) {
    for (std::size_t i = 0; i < input.size(); ++i) output.data()[i] = input.data()[i] / 2;
  }
};
using Stage = std::conditional_t<KERKIS_MISTAKE == 1, Vector, Half>;

void run(kerkis::PipelineExecutor<Stage>& executor, const Context& context, std::span<const Sample> samples) {
#if KERKIS_MISTAKE == 3
  executor.train(context, samples, [](int, const auto&) {});
#else
  executor.evaluate(context, samples);
#endif
}
