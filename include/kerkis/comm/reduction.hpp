// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <type_traits>

#include <kerkis/comm/datatype.hpp>

namespace kerkis {

/// What a reduction computes, element by element. Minimum and maximum of floating-point numbers are total: NaN wins,
/// and -0 < +0, so that every rank gets the same bits whatever the order of the reduction (payloads of NaN excepted).
///
/// Everything else is a functor, which the reductions take as their first template argument:
/// `all_reduce<Longest>(execution, communicator, view)`. It computes `Element operator()(Element, Element) const` of
/// two trivially copyable elements on the host, does not throw, is associative, and says whether it commutes:
///     struct Longest {
///       static constexpr bool commutes = true;
///       Span operator()(const Span& a, const Span& b) const {
///         return a.length < b.length || (a.length == b.length && b.begin < a.begin) ? b : a;
///       }
///     };
/// `commutes`: f(a, b) and f(b, a) have the same bits, ties included. Which of the two is the left one is then not
/// said, and is not the same on all ranks; so without the comparison of `begin` each of two ranks with spans of one
/// length might keep another. If it is false the left one is from the lower ranks. A functor is an empty type with a
/// default constructor, since an MPI operation carries no state. What holds for every operation is in docs/contract.md.
enum class Reduction {
  sum,          ///< of numbers and complex numbers
  product,      ///< of numbers and complex numbers
  minimum,      ///< of real numbers and bool
  maximum,      ///< of real numbers and bool
  logical_and,  ///< of integers and bool: 0 or 1
  logical_or,   ///< of integers and bool: 0 or 1
  logical_xor,  ///< of integers and bool: 0 or 1
  bitwise_and,  ///< of integers and bool
  bitwise_or,   ///< of integers and bool
  bitwise_xor   ///< of integers and bool
};

namespace comm {

/// In the place of a functor: the operation is the option's.
struct Named {};

template <bool minimum>
struct Extremum {
  template <class T>
  T operator()(T a, T b) const {
    const bool a_first = a < b || (a == b && std::signbit(a));
    return std::isnan(a) || (!std::isnan(b) && a_first == minimum) ? a : b;
  }
};

/// Always multiplies the same way round: where the compiler fuses a multiplication with an addition, a·b and b·a
/// differ.
struct ComplexProduct {
  template <class T>
  T operator()(const T& a, const T& b) const {
    const bool turned = b.real() < a.real() || (b.real() == a.real() && b.imag() < a.imag());
    const T &x = turned ? b : a, &y = turned ? a : b;
    return T(x.real() * y.real() - x.imag() * y.imag(), x.real() * y.imag() + x.imag() * y.real());
  }
};

/// What MPI calls. It has no way to pass an exception on.
template <class T, class Functor>
void apply(void* left, void* in_out, int* length, MPI_Datatype*) noexcept {
  if constexpr (alignof(T) <= alignof(std::max_align_t)) {
    const T* a = static_cast<const T*>(left);
    T* b = static_cast<T*>(in_out);
    for (int i = 0; i < *length; ++i) b[i] = Functor()(a[i], b[i]);
  } else {  // MPI's own buffers are aligned as malloc's are
    using Bytes = std::array<std::byte, sizeof(T)>;
    const Bytes* a = static_cast<const Bytes*>(left);
    Bytes* b = static_cast<Bytes*>(in_out);
    for (int i = 0; i < *length; ++i)
      b[i] = std::bit_cast<Bytes>(static_cast<T>(Functor()(std::bit_cast<T>(a[i]), std::bit_cast<T>(b[i]))));
  }
}

struct NativeOperation {
  MPI_Op native = MPI_OP_NULL;
  const char* name = "";
  bool own = false;  ///< a function of ours, which needs its operands in host memory
};

/// For messages.
inline const char* name_of(Reduction reduction) {
  static constexpr std::array names = {"sum",        "product",     "minimum",     "maximum",    "logical and",
                                       "logical or", "logical xor", "bitwise and", "bitwise or", "bitwise xor"};
  return names[static_cast<std::size_t>(reduction)];
}

/// For elements that do not have a reduction.
template <class T>
InputError no_reduction(Reduction reduction, Caller caller) {
  return InputError(message(caller, ": there is no ", name_of(reduction), " of ",
                            std::is_same_v<T, bool> ? "bool"
                            : std::is_integral_v<T> ? "integers"
                            : is_complex<T>         ? "complex numbers"
                                                    : "floating-point numbers"));
}

/// Of those that native_operation does not know at once.
template <class T>
NativeOperation named_operation(const Communicator& communicator, Reduction reduction, Caller caller) {
  constexpr bool integral = std::is_integral_v<T>, boolean = std::is_same_v<T, bool>,
                 real = std::is_floating_point_v<T>;
  const char* const name = name_of(reduction);
  [[maybe_unused]] const auto own = [&](MPI_User_function* function) {
    return NativeOperation{
        communicator.state() ? communicator.state()->engine->objects().operation(function) : MPI_OP_NULL, name, true};
  };
  switch (reduction) {
  case Reduction::sum:
    break;
  case Reduction::product:
    if constexpr (is_complex<T>)
      return own(&apply<T, ComplexProduct>);
    else if constexpr (!boolean)
      return {MPI_PROD, name};
    break;
  case Reduction::minimum:
    if constexpr (real) return own(&apply<T, Extremum<true>>);
    if constexpr (integral) return {boolean ? MPI_LAND : MPI_MIN, name};
    break;
  case Reduction::maximum:
    if constexpr (real) return own(&apply<T, Extremum<false>>);
    if constexpr (integral) return {boolean ? MPI_LOR : MPI_MAX, name};
    break;
  case Reduction::logical_and:
    if constexpr (integral) return {MPI_LAND, name};
    break;
  case Reduction::logical_or:
    if constexpr (integral) return {MPI_LOR, name};
    break;
  case Reduction::logical_xor:
    if constexpr (integral) return {MPI_LXOR, name};
    break;
  case Reduction::bitwise_and:
    if constexpr (integral) return {boolean ? MPI_LAND : MPI_BAND, name};
    break;
  case Reduction::bitwise_or:
    if constexpr (integral) return {boolean ? MPI_LOR : MPI_BOR, name};
    break;
  case Reduction::bitwise_xor:
    if constexpr (integral) return {boolean ? MPI_LXOR : MPI_BXOR, name};
    break;
  }
  throw no_reduction<T>(reduction, caller);
}

/// Refuses elements and functors that make no reduction; at once, as `check_pair` does.
template <class T, class Functor>
constexpr auto check_reduction() {
  if constexpr (std::is_same_v<Functor, Named>) {
    static_assert(is_element<T>, "kerkis: a reduction of elements that are no numbers takes a functor, and so do "
                                 "numbers that MPI does not know: all_reduce<Functor>(…)");
  } else {
    static_assert(std::is_trivially_copyable_v<T>, "kerkis: the elements of a reduction are trivially copyable");
    static_assert(std::is_empty_v<Functor> && std::is_default_constructible_v<Functor>,
                  "kerkis: the functor of a reduction is empty and default-constructible, since an MPI operation "
                  "carries no state");
    static_assert(
        requires { std::bool_constant<Functor::commutes>(); },
        "kerkis: the functor of a reduction says whether it commutes: static constexpr bool commutes");
    static_assert(std::is_invocable_r_v<T, const Functor&, const T&, const T&>,
                  "kerkis: the functor of a reduction makes one element of two");
  }
}

/// The functor's operation or, for `Named`, the option's. Throws InputError if the element type does not have it.
template <class T, class Functor>
NativeOperation native_operation(const Communicator& communicator, [[maybe_unused]] Reduction reduction,
                                 [[maybe_unused]] Caller caller) {
  if constexpr (std::is_same_v<Functor, Named>) {
    if constexpr (!std::is_same_v<T, bool>)
      if (reduction == Reduction::sum) [[likely]]  // nearly always
        return {MPI_SUM, "sum"};
    return named_operation<T>(communicator, reduction, caller);
  } else {
    if (!communicator.state()) return {};
    return {communicator.state()->engine->objects().operation(&apply<T, Functor>, Functor::commutes),
            type_name<Functor>(), true};
  }
}

}  // namespace comm
}  // namespace kerkis
