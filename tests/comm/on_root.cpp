// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <kerkis/comm/on_root.hpp>

#include <stdexcept>
#include <string>

namespace {

using kerkis::Communicator;

TEST_CASE("the function runs on rank 0 only") {
  const Communicator world(MPI_COMM_WORLD);
  int calls = 0;
  kerkis::on_root(world, [&] { ++calls; });
  CHECK(calls == (world.rank() == 0 ? 1 : 0));
}

TEST_CASE("what it throws, every rank throws as an InputError") {
  const Communicator world(MPI_COMM_WORLD);
  CHECK_THROWS_WITH_AS(kerkis::on_root(world, [] { throw std::runtime_error("the disk is full"); }), "the disk is full",
                       kerkis::InputError);
  CHECK_THROWS_WITH_AS(kerkis::on_root(world, [] { throw std::runtime_error(""); }), "rank 0 failed",
                       kerkis::InputError);
  CHECK_THROWS_WITH_AS(kerkis::on_root(world, [] { throw 1; }), "rank 0 failed", kerkis::InputError);
  const std::string large(5000, 'x');
  CHECK_THROWS_WITH_AS(kerkis::on_root(world, [&] { throw std::runtime_error(large); }), large.substr(0, 1000).c_str(),
                       kerkis::InputError);
  CHECK_NOTHROW(kerkis::on_root(world, [] {}));
}

TEST_CASE("a group of one") {
  const Communicator self;
  CHECK_THROWS_AS(kerkis::on_root(self, [] { throw kerkis::InputError("no"); }), kerkis::InputError);
}

}  // namespace
