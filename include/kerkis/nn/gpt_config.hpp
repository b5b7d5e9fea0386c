// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include <kerkis/core/error.hpp>

namespace kerkis::nn {

/// A decoder-only transformer: Radford et al. 2019, "Language models are unsupervised multitask learners" (GPT-2).
struct GptConfig {
  std::int64_t layers = 4;        ///< transformer blocks
  std::int64_t heads = 4;         ///< of each block's attention
  std::int64_t width = 128;       ///< columns of the hidden states, a multiple of `heads`
  std::int64_t context = 64;      ///< tokens of a sequence
  std::int64_t vocabulary = 256;  ///< tokens are 0 … vocabulary - 1
  double dropout = 0;             ///< rate, below 1: of the embedding, the probabilities and the residual branches
  bool tied = true;               ///< output weights are the embedding's

  /// Throws InputError with the numbers.
  void check() const {
    require(layers >= 1, "gpt: ", layers, " layers: at least 1 is needed");
    require(heads >= 1, "gpt: ", heads, " heads: at least 1 is needed");
    require(width >= 1 && width % heads == 0, "gpt: width ", width, " is not a multiple of ", heads, " heads");
    require(context >= 1, "gpt: context ", context, ": at least 1 token is needed");
    require(vocabulary >= 1, "gpt: a vocabulary of ", vocabulary, ": at least 1 is needed");
    require(dropout >= 0 && dropout < 1, "gpt: dropout ", dropout, " is not in [0, 1)");
  }
};

}  // namespace kerkis::nn
