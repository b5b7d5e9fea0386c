// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <cmath>
#include <type_traits>

#include <kerkis/comm/communicator.hpp>

namespace kerkis {

/// What a reduction computes. Floating minimum and maximum are total: NaN wins, and -0 < +0, so that every rank gets
/// the same bits whatever the order of the reduction (payloads of NaN excepted).
enum class Reduction { sum, minimum, maximum };

namespace comm {

template <class T, bool minimum>
void extremum(void* in, void* in_out, int* length, MPI_Datatype*) {
  const T* a = static_cast<const T*>(in);
  T* b = static_cast<T*>(in_out);
  for (int i = 0; i < *length; ++i) {
    const bool a_first = a[i] < b[i] || (a[i] == b[i] && std::signbit(a[i]));
    if (std::isnan(a[i]) || (!std::isnan(b[i]) && a_first == minimum)) b[i] = a[i];
  }
}

template <class T>
MPI_Op native_operation(const Communicator& communicator, Reduction reduction) {
  if (reduction == Reduction::sum) return MPI_SUM;
  if constexpr (std::is_floating_point_v<T>)
    return communicator.state()->engine->operation(reduction == Reduction::minimum ? &extremum<T, true>
                                                                                   : &extremum<T, false>);
  else
    return reduction == Reduction::minimum ? MPI_MIN : MPI_MAX;
}

}  // namespace comm
}  // namespace kerkis
