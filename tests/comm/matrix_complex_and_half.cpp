// SPDX-License-Identifier: Apache-2.0
#include "comm/matrix.hpp"

TEST_CASE("every operation on complex numbers and half types is what plain MPI gives") {
  using namespace matrix;
  const Communicators all;
  std::size_t number = 0;
  number += Runner<Kokkos::complex<float>, Left, Column>(all).run();
  number += Runner<Kokkos::complex<double>, Scalar, Vector>(all).run();
  number += Runner<kerkis::float16, Vector, Rows>(all).run();
  number += Runner<kerkis::bfloat16, Column, Vector>(all).run();
  if (all.plain.rank() == 0) MESSAGE(number << " cases");
}
