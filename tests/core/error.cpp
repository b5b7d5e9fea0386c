// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <kerkis/core/error.hpp>

#include <string>
#include <type_traits>

namespace {

static_assert(std::is_base_of_v<std::runtime_error, kerkis::Error>);
static_assert(std::is_base_of_v<kerkis::Error, kerkis::InputError> &&
              !std::is_base_of_v<kerkis::CommError, kerkis::InputError>);
static_assert(std::is_base_of_v<kerkis::Error, kerkis::CommError>);
static_assert(std::is_base_of_v<kerkis::CommError, kerkis::PeerError>);

TEST_CASE("an error says what, where, in which operation and of which MPI class") {
  const kerkis::CommError error("lost", 3, "all_reduce", 15);
  CHECK(std::string(error.what()) == "lost");
  CHECK(error.rank() == 3);
  CHECK(error.operation() == "all_reduce");
  CHECK(error.mpi_class() == 15);
  CHECK(error.axis().empty());
  CHECK(error.peer() == -1);
  CHECK(error.where().line() == 0);
  const auto where = std::source_location::current();
  const kerkis::CommError whole("lost", 3, "receive", 15, "data", 1, where);
  CHECK(whole.operation() == "receive");
  CHECK(whole.axis() == "data");
  CHECK(whole.peer() == 1);
  CHECK(whole.where().line() == where.line());
  const kerkis::Error plain("alone");
  CHECK(plain.rank() == -1);
  CHECK(plain.operation().empty());
  CHECK(plain.mpi_class() == 0);
}

TEST_CASE("a message joins its parts, numbers with all their digits") {
  CHECK(kerkis::message("width ", 3, " of ", std::string("x"), ' ', 0.1, ' ', 1.0 / 3) ==
        "width 3 of x 0.1 0.3333333333333333");
}

TEST_CASE("require throws InputError unless its condition holds") {
  CHECK_NOTHROW(kerkis::require(true, "never"));
  CHECK_THROWS_WITH_AS(kerkis::require(false, 2, " is odd"), "2 is odd", kerkis::InputError);
}

TEST_CASE("a call site is a file without its folders, and a line") {
  const auto where = std::source_location::current();
  CHECK(kerkis::call_site(where) == kerkis::message("error.cpp:", where.line()));
}

}  // namespace
