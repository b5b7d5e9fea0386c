// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <kerkis/core/error.hpp>
#include <kerkis/device/dropout.hpp>
#include <kerkis/module/module.hpp>

namespace kerkis::nn {

namespace detail {

/// The mask of a layer in this step; inactive in evaluation.
template <class T, class ExecutionSpace>
device::DropoutMask<T> dropout_mask(const Context<ExecutionSpace>& context, std::uint32_t stream, double rate) {
  return {Random(context.seed, stream, context.step), context.mode == Mode::training ? rate : 0.0};
}

inline double checked_rate(std::string_view name, double rate) {
  require(rate >= 0 && rate < 1, name, ": a dropout rate is at least 0 and below 1, not ", rate);
  return rate;
}

}  // namespace detail

/// Of Dropout.
struct DropoutOptions {
  double rate = 0;                   ///< of elements that become zero; below 1
  std::int64_t columns = 0;          ///< held here
  std::int64_t rows_per_sample = 1;  ///< the length of a sequence
  std::int64_t global_columns = 0;   ///< of all tensor ranks; 0: `columns`
  std::int64_t first_column = 0;     ///< of this rank
};

/// Inverted dropout: an element is zero with probability `rate`, else scaled by 1 / (1 - rate); in evaluation the
/// identity. Its fate depends on (seed, name, step, global row, global column) only, so every plan drops the same
/// elements.
template <class T, class Space = Kokkos::DefaultExecutionSpace>
class Dropout {
 public:
  using Element = T;
  using ExecutionSpace = Space;
  using Matrix = kerkis::Matrix<T, Space>;
  using Context = kerkis::Context<Space>;
  struct SavedInput {
    device::DropoutMask<T> mask;
    std::uint64_t first = 0;
  };
  struct SavedWeight {};
  using Saved = kerkis::Saved<SavedInput, SavedWeight>;

  /// `name`: unique in the model, for random numbers of its own. Throws InputError for a rate outside [0, 1).
  Dropout(const std::string& name, DropoutOptions options) : options_(options), stream_(stream_of(name)) {
    detail::checked_rate(name, options.rate);
    if (options_.global_columns == 0) options_.global_columns = options_.columns;
  }

  std::int64_t input_columns() const { return options_.columns; }
  std::int64_t output_columns() const { return options_.columns; }
  Saved make_saved(std::int64_t) const { return {}; }

  void forward(Context& context, const Matrix& input, const Matrix& output, Saved& saved) {
    saved.input.mask = detail::dropout_mask<T>(context, stream_, options_.rate);
    saved.input.first = static_cast<std::uint64_t>(
        context.first_sample * options_.rows_per_sample * options_.global_columns + options_.first_column);
    apply(context, input, output, saved);
  }
  void backward_input(Context& context, const Matrix& output_gradient, const Matrix& input_gradient, Saved& saved) {
    apply(context, output_gradient, input_gradient, saved);
  }
  void backward_weight(Context&, Saved&) {}
  template <class F>
  void for_each_parameter(F&&) {}

 private:
  void apply(Context& context, const Matrix& in, const Matrix& out, const Saved& saved) const {
    device::dropout<Space, T>(context.execution, static_cast<std::int64_t>(in.extent(0)), options_.columns,
                              saved.input.mask, saved.input.first, static_cast<std::uint64_t>(options_.global_columns),
                              in.data(), out.data());
  }

  DropoutOptions options_;
  std::uint32_t stream_;
};

}  // namespace kerkis::nn
