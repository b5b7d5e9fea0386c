// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <kerkis/core/error.hpp>
#include <kerkis/core/philox.hpp>
#include <kerkis/module/parameter.hpp>

namespace kerkis {

/// A run of neighbouring elements of one parameter, as a kernel treats them.
struct ParameterPiece {
  std::int64_t begin = 0;  ///< index of the first element in ParameterStore::values
  std::int64_t size = 0;   ///< elements
  bool decays = false;     ///< as in Parameter
  bool counted = false;    ///< in norms; each global element is counted on one tensor rank and one stage
};

/// The memory of all parameters of this rank: one flat array of values, one of gradients, in the order in which they
/// were declared. What goes over every parameter (reduction, norm, optimizer) is then one pass, and a bucket of
/// gradients is a range of it. Padding between parameters stays zero. Parameters must outlive the store and stay where
/// they are.
template <class T, class ExecutionSpace = Kokkos::DefaultExecutionSpace>
class ParameterStore {
 public:
  using Declared = Parameter<T, ExecutionSpace>;  ///< what layers declare

  /// Gives memory to every parameter of `model`. `tensor_rank` is this rank's coordinate on the tensor axis.
  /// Throws InputError if two parameters have one name.
  template <class Model>
  ParameterStore(Model& model, int tensor_rank) {
    model.for_each_parameter([&](Declared& parameter) { parameters_.push_back(&parameter); });
    check_names();
    std::int64_t end = 0;
    for (const Declared* parameter : parameters_) {
      offsets_.push_back(end);
      end += (parameter->size() + alignment - 1) / alignment * alignment;
    }
    values_ = Vector<T, ExecutionSpace>("kerkis::parameters", static_cast<std::size_t>(end));
    gradients_ = Vector<T, ExecutionSpace>("kerkis::gradients", static_cast<std::size_t>(end));
    std::vector<ParameterPiece> pieces;
    for (std::size_t p = 0; p < parameters_.size(); ++p) {
      Declared& parameter = *parameters_[p];
      const auto range = Kokkos::make_pair(static_cast<std::size_t>(offsets_[p]),
                                           static_cast<std::size_t>(offsets_[p] + parameter.size()));
      parameter.value = Kokkos::subview(values_, range);
      parameter.gradient = Kokkos::subview(gradients_, range);
      const bool counted = parameter.counted && (!parameter.replicated || tensor_rank == 0);
      for (std::int64_t begin = 0; begin < parameter.size(); begin += piece_size)
        pieces.push_back(
            {offsets_[p] + begin, std::min(piece_size, parameter.size() - begin), parameter.decays, counted});
    }
    pieces_ = Kokkos::View<ParameterPiece*, typename ExecutionSpace::memory_space>(std::string("kerkis::pieces"),
                                                                                   pieces.size());
    Kokkos::deep_copy(pieces_, Kokkos::View<ParameterPiece*, Kokkos::HostSpace>(pieces.data(), pieces.size()));
  }

  /// Sets every value to what `seed`, the parameter's name and the element's global index say: the same for every plan.
  void initialise(std::uint64_t seed) const {
    for (const Declared* parameter : parameters_) {
      const auto host = Kokkos::create_mirror_view(parameter->value);
      const Random random(seed, stream_of(parameter->name));
      for (std::int64_t i = 0; i < parameter->size(); ++i) {
        const double value =
            parameter->initial.kind == Initial::Kind::normal
                ? parameter->initial.value * random.normal(static_cast<std::uint64_t>(parameter->global_index(i)))
                : parameter->initial.value;
        host(static_cast<std::size_t>(i)) = static_cast<T>(value);
      }
      Kokkos::deep_copy(parameter->value, host);
    }
  }

  /// Those of this rank, one parameter after the other, with the padding.
  const Vector<T, ExecutionSpace>& values() const { return values_; }
  /// Laid out as the values.
  const Vector<T, ExecutionSpace>& gradients() const { return gradients_; }
  /// All elements, in their order, without the padding; in device memory.
  const Kokkos::View<ParameterPiece*, typename ExecutionSpace::memory_space>& pieces() const { return pieces_; }
  /// In the order in which the model declares them.
  const std::vector<Declared*>& parameters() const { return parameters_; }

  /// Where the gradient of `parameter` begins in gradients().
  std::int64_t offset(const Declared& parameter) const { return parameter.gradient.data() - gradients_.data(); }
  /// The parameter called `name`; throws InputError if there is none on this rank.
  const Declared& at(std::string_view name) const {
    for (const Declared* parameter : parameters_)
      if (parameter->name == name) return *parameter;
    throw InputError(message("this rank has no parameter '", name, "'"));
  }

 private:
  static constexpr std::int64_t alignment = 32;        // elements: whole cache lines
  static constexpr std::int64_t piece_size = 1 << 14;  // elements: work for one thread at a time

  void check_names() const {
    std::vector<std::string_view> names;
    for (const Declared* parameter : parameters_) names.push_back(parameter->name);
    std::sort(names.begin(), names.end());
    const auto twice = std::adjacent_find(names.begin(), names.end());
    if (twice != names.end()) throw InputError(message("two parameters are called '", *twice, "'"));
  }

  std::vector<Declared*> parameters_;
  std::vector<std::int64_t> offsets_;
  Vector<T, ExecutionSpace> values_, gradients_;
  Kokkos::View<ParameterPiece*, typename ExecutionSpace::memory_space> pieces_;
};

}  // namespace kerkis
