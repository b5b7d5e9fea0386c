// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

namespace kerkis {

/// Whole sequences of tokens with their targets: what a language model takes as one microbatch, or as a replica's share of a step.
template <class ExecutionSpace = Kokkos::DefaultExecutionSpace>
struct TokenBatch {
  using Tokens = Kokkos::View<const std::int32_t*, typename ExecutionSpace::memory_space>;

  Tokens tokens;                 ///< [sequence][position]
  Tokens targets;                ///< the same extent; negative: not scored
  std::int64_t first_sample = 0;  ///< global index, within the step, of the first sequence

  std::int64_t rows() const { return static_cast<std::int64_t>(tokens.extent(0)); }

  /// The sequences [begin, end) of this batch, as unmanaged views of it.
  TokenBatch slice(std::int64_t begin, std::int64_t end, std::int64_t context_length) const {
    const auto count = static_cast<std::size_t>((end - begin) * context_length);
    return {Tokens(tokens.data() + begin * context_length, count), Tokens(targets.data() + begin * context_length, count), first_sample + begin};
  }
};

}  // namespace kerkis
