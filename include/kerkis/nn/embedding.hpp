// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>

#include <kerkis/core/error.hpp>
#include <kerkis/device/embedding.hpp>
#include <kerkis/module/context.hpp>
#include <kerkis/module/matrix.hpp>
#include <kerkis/module/parameter.hpp>
#include <kerkis/tensor_parallel/sum_over.hpp>

namespace kerkis::nn {

/// Of Embedding.
struct EmbeddingOptions {
  std::int64_t vocabulary = 0;      ///< tokens are 0 … vocabulary - 1
  std::int64_t width = 0;           ///< columns of a vector
  std::int64_t context_length = 1;  ///< rows of a sequence
};

/// A learned vector for each token plus one for each position: rows of tokens (whole sequences) to rows of `width`
/// columns. The table `<name>.tokens` (vocabulary, width) is spread over the tensor axis by rows, unevenly where need
/// be; one all_reduce forward, none backward. `<name>.positions` (context_length, width) is whole. Tokens outside the
/// vocabulary become zeros.
template <class T, class Space = Kokkos::DefaultExecutionSpace>
class Embedding {
 public:
  using Element = T;
  using ExecutionSpace = Space;
  using Matrix = kerkis::Matrix<T, Space>;
  using Parameter = kerkis::Parameter<T, Space>;
  using Context = kerkis::Context<Space>;
  using Tokens = Kokkos::View<const std::int32_t*, typename Space::memory_space>;

  /// `tensor`: over which the table is spread. Throws InputError for an extent below 1.
  Embedding(const std::string& name, EmbeddingOptions options, Communicator tensor = {})
      : options_(options), tensor_(std::move(tensor)),
        table_(std::make_shared<Parameter>(make_table(name + ".tokens", options.vocabulary, options.width, tensor_))),
        positions_(Parameter::whole(name + ".positions", {options.context_length, options.width}, Initial::normal(0.02),
                                    true)) {
    require(options.vocabulary > 0 && options.width > 0 && options.context_length > 0, name, ": an embedding of ",
            options.vocabulary, " tokens and ", options.context_length, " positions in ", options.width, " columns");
  }

  /// The parameter of a table, spread over the tensor axis: for a copy that another pipeline stage ties its output
  /// weights to.
  static Parameter make_table(std::string name, std::int64_t vocabulary, std::int64_t width,
                              const Communicator& tensor) {
    return Parameter::sliced(std::move(name), {vocabulary, width}, 0,
                             partition(vocabulary, tensor.size(), tensor.rank()), Initial::normal(0.02), true);
  }
  /// To be shared with output weights that are tied.
  const std::shared_ptr<Parameter>& table() const { return table_; }
  std::int64_t output_columns() const { return options_.width; }

  /// Writes all of `output`.
  void forward(Context& context, const Tokens& tokens, const Matrix& output) const {
    device::embedding_forward<Space, T>(context.execution, shape(tokens), table_->value.data(), positions_.value.data(),
                                        output.data());
    sum_over(context, tensor_, output);
  }
  /// Adds to both gradients; the caller still has the tokens.
  void backward(Context& context, const Tokens& tokens, const Matrix& output_gradient) {
    device::embedding_backward<Space, T>(context.execution, shape(tokens), output_gradient.data(),
                                         table_->gradient.data(), positions_.gradient.data());
  }
  template <class F>
  void for_each_parameter(F&& f) {
    f(*table_);
    f(positions_);
  }

 private:
  device::EmbeddingShape<T> shape(const Tokens& tokens) const {
    return {static_cast<std::int64_t>(tokens.extent(0)), options_.width, options_.context_length, table_->slice,
            tokens.data()};
  }

  EmbeddingOptions options_;
  Communicator tensor_;
  std::shared_ptr<Parameter> table_;
  Parameter positions_;
};

}  // namespace kerkis::nn
