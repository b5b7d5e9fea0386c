// SPDX-License-Identifier: Apache-2.0
#include "comm/matrix.hpp"

TEST_CASE("every operation on integers of the other sizes and signs is what plain MPI gives") {
  using namespace matrix;
  const Communicators all;
  std::size_t number = 0;
  number += Runner<std::uint8_t, Column, Middle>(all).run();
  number += Runner<std::int16_t, Left, Column>(all).run();
  number += Runner<std::uint32_t, Scalar, Rows>(all).run();
  number += Runner<std::uint64_t, Vector, Left>(all).run();
  if (all.plain.rank() == 0) MESSAGE(number << " cases");
}
