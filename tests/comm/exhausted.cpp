// SPDX-License-Identifier: Apache-2.0
// An MPI library that has no communicators left: an error on every rank, which leaves the program's own as they were.
#include <doctest/doctest.h>
#include <kerkis/comm/barrier.hpp>

#include <mpi.h>

#include <cstddef>
#include <string>
#include <vector>

#include "thrown.hpp"

namespace {

using kerkis::CommError, kerkis::Communicator, kerkis::message;

constexpr std::size_t many = 2'100;

int handled = 0;  // errors, by the program's handler
void handle(MPI_Comm*, int*, ...) { ++handled; }

/// What `make` throws in the end; "" if that many can be made.
template <class Make>
std::string exhaust(std::vector<Communicator>& made, Make&& make) {
  try {
    while (made.size() < many) made.push_back(make());
  } catch (const CommError& error) {
    CHECK(error.mpi_class() != MPI_SUCCESS);
    return error.what();
  }
  return "";
}

TEST_CASE("when MPI has no communicators left every rank learns it, and the program's handler of errors stays") {
  MPI_Comm user = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &user);
  MPI_Errhandler counts = MPI_ERRHANDLER_NULL, after = MPI_ERRHANDLER_NULL;
  MPI_Comm_create_errhandler(handle, &counts);
  MPI_Comm_set_errhandler(user, counts);
  {
    const Communicator first(MPI_COMM_WORLD, "first");
    std::vector<Communicator> made;
    for (const bool own_handler : {true, false}) {  // MPI_COMM_WORLD has MPI_ERRORS_ARE_FATAL
      const MPI_Comm from = own_handler ? user : MPI_COMM_WORLD;
      const std::string text = exhaust(made, [&] { return Communicator(from, "one more"); });
      if (text.empty()) {
        MESSAGE("skipped: this MPI has room for more than ", many, " communicators");
        break;
      }
      CHECK_MESSAGE(contains(text, message("the construction of communicator 'one more' of ", first.size(),
                                           first.size() == 1 ? " rank" : " ranks", ", called at exhausted.cpp:")),
                    text);
      CHECK_MESSAGE(contains(text, "MPI makes no duplicate: MPI_"), text);
      CHECK(made.size() > 100);
      kerkis::barrier(first).wait();
      kerkis::barrier(made.back()).wait();
      made.clear();
      const Communicator again(from, "again");
      kerkis::barrier(again).wait();
    }
    {
      const Communicator root(user, "root");
      const std::string text = exhaust(made, [&] { return root.split(0, root.rank(), "part"); });
      CHECK_MESSAGE((text.empty() || contains(text, "split of 'root' to make 'part', called at exhausted.cpp:")), text);
      CHECK_MESSAGE((text.empty() || contains(text, "MPI_Comm_split: ")), text);
      CHECK(root.poisoned() != text.empty());
      made.clear();
    }
    kerkis::barrier(first).wait();
  }
  CHECK(handled == 0);
  MPI_Comm_get_errhandler(user, &after);
  CHECK(after == counts);
  MPI_Send(nullptr, 0, MPI_INT, -77, 0, user);
  CHECK(handled == 1);
  MPI_Errhandler_free(&counts);
  MPI_Errhandler_free(&after);
  MPI_Comm_free(&user);
}

}  // namespace
