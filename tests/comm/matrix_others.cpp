// SPDX-License-Identifier: Apache-2.0
#include "comm/matrix.hpp"

TEST_CASE("every operation on structs (by a functor), bool and characters is what plain MPI gives") {
  using namespace matrix;
  const plain::LongestInMpi made;
  const Communicators all;
  std::size_t number = 0;
  number += Runner<Longest, Middle, Vector>(all).run();
  number += Runner<bool, Cube, Column>(all).run();
  number += Runner<char, Vector, Cube>(all).run();
  if (all.plain.rank() == 0) MESSAGE(number << " cases");
}
