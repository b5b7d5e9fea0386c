// SPDX-License-Identifier: Apache-2.0
#include "comm/matrix.hpp"

TEST_CASE("every operation on real numbers is what plain MPI gives") {
  using namespace matrix;
  const Communicators all;
  std::size_t number = 0;
  number += Runner<double, Vector, Vector>(all).run();
  number += Runner<float, Column, Left>(all).run();
  number += Runner<double, Rows, Rows>(all).run();
  number += Runner<long double, Left, Vector>(all).run();
  if (all.plain.rank() == 0) MESSAGE(number << " cases");
}
