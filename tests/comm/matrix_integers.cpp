// SPDX-License-Identifier: Apache-2.0
#include "comm/matrix.hpp"

TEST_CASE("every operation on integers is what plain MPI gives") {
  using namespace matrix;
  const Communicators all;
  std::size_t number = 0;
  number += Runner<std::int8_t, Vector, Middle>(all).run();
  number += Runner<std::uint16_t, Rows, Left>(all).run();
  number += Runner<std::int32_t, Cube, Vector>(all).run();
  number += Runner<std::int64_t, Middle, Cube>(all).run();
  if (all.plain.rank() == 0) MESSAGE(number << " cases");
}
