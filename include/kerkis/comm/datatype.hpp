// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cstdint>
#include <type_traits>

namespace kerkis::comm {

/// An element type as MPI and messages know it.
struct Datatype {
  MPI_Datatype native;
  const char* name;
};

template <class T>
inline constexpr bool is_element =
    std::is_same_v<T, float> || std::is_same_v<T, double> || (std::is_integral_v<T> && !std::is_same_v<T, bool>);

/// The MPI type of float, double and the integers.
template <class T>
Datatype datatype() {
  static_assert(is_element<T>, "kerkis: this operation takes Views of float, double or integers");
  if constexpr (std::is_same_v<T, float>) return {MPI_FLOAT, "float"};
  if constexpr (std::is_same_v<T, double>) return {MPI_DOUBLE, "double"};
  if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>) {
      if constexpr (sizeof(T) == 1) return {MPI_INT8_T, "int8"};
      if constexpr (sizeof(T) == 2) return {MPI_INT16_T, "int16"};
      if constexpr (sizeof(T) == 4) return {MPI_INT32_T, "int32"};
      if constexpr (sizeof(T) == 8) return {MPI_INT64_T, "int64"};
    } else {
      if constexpr (sizeof(T) == 1) return {MPI_UINT8_T, "uint8"};
      if constexpr (sizeof(T) == 2) return {MPI_UINT16_T, "uint16"};
      if constexpr (sizeof(T) == 4) return {MPI_UINT32_T, "uint32"};
      if constexpr (sizeof(T) == 8) return {MPI_UINT64_T, "uint64"};
    }
  }
}

}  // namespace kerkis::comm
