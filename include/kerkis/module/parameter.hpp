// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <kerkis/core/error.hpp>
#include <kerkis/core/partition.hpp>
#include <kerkis/module/matrix.hpp>

namespace kerkis {

/// How the elements of a parameter begin.
struct Initial {
  /// Which distribution the elements have.
  enum class Kind {
    constant,               ///< all alike
    normal                  ///< of mean zero
  } kind = Kind::constant;  ///< which of them
  double value = 0;         ///< the constant, or the standard deviation of a normal of mean zero

  /// Every element is `value`.
  static Initial constant(double value) { return {Kind::constant, value}; }
  /// Normal with this standard deviation.
  static Initial normal(double deviation) { return {Kind::normal, deviation}; }
};

/// One trainable tensor, or the slice of it that lies on this rank. Initialisation, clipping, optimizer, reduction and
/// checkpoint see only this. A layer declares it in its constructor; `ParameterStore` gives it memory.
template <class T, class ExecutionSpace = Kokkos::DefaultExecutionSpace>
struct Parameter {
  std::string name;                  ///< unique in the model: "blocks.3.mlp.up.weight"
  std::vector<std::int64_t> shape;   ///< global extents, row-major
  std::size_t sliced_dimension = 0;  ///< the dimension that is spread over the tensor axis
  Range slice;                       ///< the indices of that dimension held here; all of them if replicated
  bool replicated = true;            ///< every tensor rank holds all of it, and after backward the whole gradient
  bool decays = false;               ///< weight decay applies (matrices, not biases and gains)
  bool counted = true;  ///< this rank's pipeline stage counts it in norms (false for all but one of the sharers)
  Initial initial;      ///< how its elements begin

  Vector<T, ExecutionSpace> value,  ///< row-major local block, `size()` elements
      gradient;                     ///< the same; a sum over samples, partial over the data axis until reduced

  /// The number of elements held here.
  std::int64_t size() const {
    std::int64_t product = 1;
    for (std::size_t d = 0; d < shape.size(); ++d) product *= d == sliced_dimension ? slice.size() : shape[d];
    return product;
  }
  /// The number of elements of the whole tensor.
  std::int64_t global_size() const {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, [](auto a, auto b) { return a * b; });
  }
  /// The index in the whole row-major tensor of the local element `local`.
  std::int64_t global_index(std::int64_t local) const {
    std::int64_t inner = 1;
    for (std::size_t d = sliced_dimension + 1; d < shape.size(); ++d) inner *= shape[d];
    const std::int64_t block = slice.size() * inner;
    return local / block * shape[sliced_dimension] * inner + slice.begin * inner + local % block;
  }
  /// A parameter that every tensor rank holds whole.
  static Parameter whole(std::string name, std::vector<std::int64_t> shape, Initial initial, bool decays) {
    const Range all{0, shape.front()};
    return {std::move(name), std::move(shape), 0, all, true, decays, true, initial, {}, {}};
  }
  /// A parameter of which this rank holds `slice` of `dimension`. With one tensor rank that is all of it.
  static Parameter sliced(std::string name, std::vector<std::int64_t> shape, std::size_t dimension, Range slice,
                          Initial initial, bool decays) {
    return {std::move(name), std::move(shape), dimension, slice, false, decays, true, initial, {}, {}};
  }
};

/// Throws InputError if a parameter of `m`, a module or a stage, has no memory: for `make_saved`, which comes before
/// any pass.
template <class M>
void require_memory(M& m) {
  m.for_each_parameter([](const auto& parameter) {
    require(static_cast<std::int64_t>(parameter.value.extent(0)) == parameter.size(), "the parameter '", parameter.name,
            "' has no memory: make a Trainer or a ParameterStore first");
  });
}

}  // namespace kerkis
