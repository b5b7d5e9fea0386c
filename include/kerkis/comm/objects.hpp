// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <map>

#include <kerkis/comm/mpi.hpp>

namespace kerkis::comm {

/// MPI operations and types, each made once.
class Objects {
 public:
  Objects() = default;
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;
  ~Objects() {
    if (!mpi_is_alive()) return;
    for (auto& [key, operation] : operations_) MPI_Op_free(&operation);
    for (auto& [size, type] : types_) MPI_Type_free(&type);
  }

  MPI_Op operation(MPI_User_function* function, bool commutes) {
    const auto [place, made] = operations_.try_emplace(function, MPI_OP_NULL);
    if (made) check(MPI_Op_create(function, commutes ? 1 : 0, &place->second), "MPI_Op_create");
    return place->second;
  }

  MPI_Datatype bytes(int size) {
    const auto [place, made] = types_.try_emplace(size, MPI_DATATYPE_NULL);
    if (made) {
      check(MPI_Type_contiguous(size, MPI_BYTE, &place->second), "MPI_Type_contiguous");
      check(MPI_Type_commit(&place->second), "MPI_Type_commit");
    }
    return place->second;
  }

 private:
  std::map<MPI_User_function*, MPI_Op> operations_;
  std::map<int, MPI_Datatype> types_;
};

}  // namespace kerkis::comm
