// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

namespace kerkis {

/// Which layers of a stage keep nothing but their input and run their forward once more before their backward: Chen et
/// al. 2016, "Training deep nets with sublinear memory cost", arXiv:1604.06174. A stage is cut into segments of
/// `segment` layers, what precedes its layers going with the first and what follows them with the last. A microbatch
/// keeps the inputs of the segments; one segment at a time has its activations. The numbers stay what they were, since
/// randomness is counted.
struct Recomputation {
  std::int64_t segment = 0;  ///< layers; 0: nothing is recomputed

  /// Nothing is recomputed.
  static constexpr Recomputation none() { return {0}; }
  /// The stage is one segment.
  static constexpr Recomputation full() { return {std::numeric_limits<std::int64_t>::max()}; }
  /// Segments of so many layers.
  static constexpr Recomputation every(std::int64_t layers) { return {layers}; }

  friend constexpr bool operator==(const Recomputation&, const Recomputation&) = default;
};

namespace recompute {
/// Nothing is recomputed.
struct none {
  static constexpr Recomputation value = Recomputation::none();  ///< the same as a value
};
/// A microbatch keeps the input of the stage only.
struct full {
  static constexpr Recomputation value = Recomputation::full();  ///< the same as a value
};
/// A microbatch keeps the input of every `k` layers.
template <std::int64_t k>
struct every {
  static_assert(k > 0, "kerkis: Recompute<recompute::every<k>> needs segments of at least one layer");
  static constexpr Recomputation value = Recomputation::every(k);  ///< the same as a value
};
}  // namespace recompute

/// An option of Pipeline: Recompute<recompute::none>, Recompute<recompute::full> or Recompute<recompute::every<2>>.
template <class What>
struct Recompute {
  static constexpr Recomputation value = What::value;  ///< the same as a value
};

}  // namespace kerkis
