// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>

#include <kerkis/core/error.hpp>

namespace kerkis {

namespace detail {
template <class Tokens>
struct LargestToken {
  Tokens tokens;
  KOKKOS_FUNCTION void operator()(std::int64_t row, std::int32_t& largest) const {
    const std::int32_t token = tokens(static_cast<std::size_t>(row));
    largest = token > largest ? token : largest;
  }
};
template <class Tokens>
struct SmallestToken {
  Tokens tokens;
  KOKKOS_FUNCTION void operator()(std::int64_t row, std::int32_t& smallest) const {
    const std::int32_t token = tokens(static_cast<std::size_t>(row));
    smallest = token < smallest ? token : smallest;
  }
};
template <class Targets>
struct ScoredTargets {
  Targets targets;
  KOKKOS_FUNCTION void operator()(std::int64_t row, std::int64_t& count) const {
    count += targets(static_cast<std::size_t>(row)) >= 0 ? 1 : 0;
  }
};
}  // namespace detail

/// Whole sequences of tokens with their targets: what a language model takes as one microbatch, or as a replica's share
/// of a step.
template <class ExecutionSpace = Kokkos::DefaultExecutionSpace>
struct TokenBatch {
  using Tokens = Kokkos::View<const std::int32_t*, typename ExecutionSpace::memory_space>;

  Tokens tokens;                  ///< [sequence][position]
  Tokens targets;                 ///< the same extent; negative: not scored
  std::int64_t first_sample = 0;  ///< global index, within the step, of the first sequence
  std::int64_t context = 0;       ///< tokens of a sequence, if they are known

  /// Throws InputError if a token is no word of the vocabulary. Fences.
  void check_tokens(const ExecutionSpace& execution, std::int64_t vocabulary) const {
    std::int32_t smallest = 0;
    Kokkos::parallel_reduce("kerkis::tokens", Policy(execution, 0, rows()), detail::SmallestToken<Tokens>{tokens},
                            Kokkos::Min<std::int32_t>(smallest));
    require(rows() == 0 || smallest >= 0, "a token is ", smallest, ", below 0");
    check_largest(execution, "token", tokens, vocabulary);
  }
  /// The same for targets, of which negative ones are legal.
  void check_targets(const ExecutionSpace& execution, std::int64_t vocabulary) const {
    check_largest(execution, "target", targets, vocabulary);
  }

  /// The number of targets that are scored: the weight of the loss. Fences.
  std::int64_t scored(const ExecutionSpace& execution) const {
    std::int64_t count = 0;
    Kokkos::parallel_reduce("kerkis::scored", Policy(execution, 0, static_cast<std::int64_t>(targets.extent(0))),
                            detail::ScoredTargets<Tokens>{targets}, count);
    return count;
  }

  /// Of its matrices: the number of tokens.
  std::int64_t rows() const { return static_cast<std::int64_t>(tokens.extent(0)); }

  /// The sequences [begin, end) of this batch, as unmanaged views of it.
  TokenBatch slice(std::int64_t begin, std::int64_t end, std::int64_t context_length) const {
    const auto count = static_cast<std::size_t>((end - begin) * context_length);
    return {Tokens(tokens.data() + begin * context_length, count),
            Tokens(targets.data() + begin * context_length, count), first_sample + begin, context_length};
  }

 private:
  using Policy = Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::int64_t>>;
  static void check_largest(const ExecutionSpace& execution, const char* what, const Tokens& words,
                            std::int64_t vocabulary) {
    std::int32_t largest = -1;
    const auto count = static_cast<std::int64_t>(words.extent(0));
    Kokkos::parallel_reduce("kerkis::tokens", Policy(execution, 0, count), detail::LargestToken<Tokens>{words},
                            Kokkos::Max<std::int32_t>(largest));
    require(count == 0 || largest < vocabulary, "a ", what, " is ", largest, ", outside the vocabulary of ",
            vocabulary);
  }
};

}  // namespace kerkis
