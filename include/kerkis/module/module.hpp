// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstdint>
#include <utility>

#include <kerkis/module/context.hpp>
#include <kerkis/module/matrix.hpp>
#include <kerkis/module/parameter.hpp>

namespace kerkis {

/// What one microbatch must keep. backward_input leaves in `weight` what backward_weight needs; between the two,
/// `input` can be used for another microbatch.
template <class Input, class Weight>
struct Saved {
  Input input;    ///< until its backward_input
  Weight weight;  ///< until its backward_weight
};

/// A differentiable function of a matrix, with parameters. Any class with these members can be parallelised; the
/// library's own layers have no privilege. Rows may be fewer than `make_saved` was told, also zero.
///
///  - `forward(context, input, output, saved)`: writes all of `output`. `input` stays unchanged and alive until
///    backward_weight: the caller keeps it.
///  - `backward_input(context, output_gradient, input_gradient, saved)`: writes all of `input_gradient`.
///  `output_gradient` may
///    be reused by the caller as soon as the call returns.
///  - `backward_weight(context, saved)`: adds to the gradients of the parameters, sums over rows.
///  - `for_each_parameter(f)`: calls f(Parameter&) in the order of the forward pass.
///  - `make_saved(rows)`: allocates for at most `rows` rows.
///  - `input_columns()`, `output_columns()`.
template <class M>
concept Module =
    requires(M m, Context<typename M::ExecutionSpace>& context,
             const Matrix<typename M::Element, typename M::ExecutionSpace>& matrix, typename M::Saved& saved,
             void (&f)(Parameter<typename M::Element, typename M::ExecutionSpace>&)) {  // nvcc 13 takes no lambda here
      m.forward(context, matrix, matrix, saved);
      m.backward_input(context, matrix, matrix, saved);
      m.backward_weight(context, saved);
      m.for_each_parameter(f);
      { m.make_saved(std::int64_t{}) } -> std::same_as<typename M::Saved>;
      { m.input_columns() } -> std::convertible_to<std::int64_t>;
      { m.output_columns() } -> std::convertible_to<std::int64_t>;
      saved.input;
      saved.weight;
    };

/// Calls `f` with the first parameter that `m` declares, if it has any: for stages, which say that the gradients
/// of a parameter and of all after it are complete.
template <class M, class F>
void with_first_parameter(M& m, F&& f) {
  bool seen = false;
  m.for_each_parameter([&](auto& parameter) {
    if (!std::exchange(seen, true)) f(parameter);
  });
}

}  // namespace kerkis
