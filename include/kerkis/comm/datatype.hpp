// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <Kokkos_Complex.hpp>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <kerkis/comm/communicator.hpp>
#include <kerkis/core/bfloat16.hpp>
#include <kerkis/core/float16.hpp>

namespace kerkis::comm {

/// An element type as MPI and messages know it.
struct Datatype {
  MPI_Datatype native;
  const char* name;
  const char* order = "";  ///< of a View's elements, if it has more than one index
};

template <class T>
inline constexpr bool is_half = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

template <class T>
inline constexpr bool is_complex =
    std::is_same_v<T, Kokkos::complex<float>> || std::is_same_v<T, Kokkos::complex<double>>;

/// What MPI has a type for: the arithmetic types, bool, complex and the half types (which move as 16-bit integers).
/// Compilers have more that call themselves arithmetic: _Float16, 128 bits. These are moved as structs are.
template <class T>
inline constexpr bool is_element = std::is_same_v<T, float> || std::is_same_v<T, double> ||
                                   std::is_same_v<T, long double> ||
                                   (std::is_integral_v<T> && sizeof(T) <= 8) || is_half<T> || is_complex<T>;

/// What can be moved between ranks: also structs whose bytes are all there is to them. A pointer means nothing
/// elsewhere.
template <class T>
inline constexpr bool is_movable = is_element<T> || (std::is_trivially_copyable_v<T> && !std::is_pointer_v<T> &&
                                                     !std::is_member_pointer_v<T> && !std::is_null_pointer_v<T>);

/// The name of a type as the compiler writes it, for messages, and to tell types from each other.
template <class T>
struct TypeName {
  static constexpr auto make() {
    constexpr std::string_view function = __PRETTY_FUNCTION__, before = "T = ";  // "… [with T = Span]"
    constexpr std::size_t begin = function.find(before) + before.size(), size = function.rfind(']') - begin;
    std::array<char, size + 1> name{};
    function.copy(name.data(), size, begin);
    return name;
  }
  static constexpr auto text = make();
};
template <class T>
constexpr const char* type_name() {
  return TypeName<T>::text.data();
}

/// The MPI type of what MPI knows by itself.
template <class T>
Datatype datatype() {
  static_assert(is_element<T>, "kerkis: this operation takes Views of arithmetic types, bool, Kokkos::complex<float or "
                               "double>, kerkis::float16 or kerkis::bfloat16");
  if constexpr (std::is_same_v<T, float>) return {MPI_FLOAT, "float"};
  if constexpr (std::is_same_v<T, double>) return {MPI_DOUBLE, "double"};
  if constexpr (std::is_same_v<T, long double>) return {MPI_LONG_DOUBLE, "long double"};
  if constexpr (std::is_same_v<T, bool>) return {MPI_CXX_BOOL, "bool"};
  if constexpr (std::is_same_v<T, Kokkos::complex<float>>) return {MPI_C_FLOAT_COMPLEX, "complex<float>"};
  if constexpr (std::is_same_v<T, Kokkos::complex<double>>) return {MPI_C_DOUBLE_COMPLEX, "complex<double>"};
  if constexpr (std::is_same_v<T, float16>) return {MPI_UINT16_T, "float16"};
  if constexpr (std::is_same_v<T, bfloat16>) return {MPI_UINT16_T, "bfloat16"};
  if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) {
    // By size: two integers of the same size are the same to MPI, and characters are small integers.
    constexpr bool is_signed = std::is_signed_v<T>;
    constexpr bool is_char = std::is_same_v<T, char>;
    if constexpr (sizeof(T) == 1)
      return {is_signed ? MPI_INT8_T : MPI_UINT8_T, is_char ? "char" : is_signed ? "int8" : "uint8"};
    if constexpr (sizeof(T) == 2) return {is_signed ? MPI_INT16_T : MPI_UINT16_T, is_signed ? "int16" : "uint16"};
    if constexpr (sizeof(T) == 4) return {is_signed ? MPI_INT32_T : MPI_UINT32_T, is_signed ? "int32" : "uint32"};
    if constexpr (sizeof(T) == 8) return {is_signed ? MPI_INT64_T : MPI_UINT64_T, is_signed ? "int64" : "uint64"};
  }
}

/// The MPI type of anything that can be moved; a struct's is made once per root communicator.
template <class T>
Datatype datatype(const Communicator& communicator) {
  static_assert(is_movable<T>, "kerkis: communication takes Views of arithmetic types, bool, Kokkos::complex, "
                               "kerkis::float16, kerkis::bfloat16 or trivially copyable structs");
  if constexpr (std::is_same_v<T, long double>)
    require(MPI_LONG_DOUBLE != MPI_DATATYPE_NULL, "this MPI library has no long double");
  if constexpr (is_element<T>) {
    return datatype<T>();
  } else if constexpr (is_movable<T>) {
    const auto& state = communicator.state();
    return {state ? state->engine->objects().bytes(static_cast<int>(sizeof(T))) : MPI_DATATYPE_NULL, type_name<T>()};
  } else {
    return {MPI_DATATYPE_NULL, ""};
  }
}

}  // namespace kerkis::comm
