// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <vector>

#include <kerkis/comm/mpi.hpp>
#include <kerkis/comm/shape.hpp>

namespace kerkis::comm {

/// MPI operations and types, each made once and freed with the engine.
class Objects {
 public:
  Objects() = default;
  Objects(const Objects&) = delete;
  Objects& operator=(const Objects&) = delete;
  ~Objects() {
    if (!mpi_is_alive()) return;
    for (Made& one : made_) {
      if (one.operation != MPI_OP_NULL) MPI_Op_free(&one.operation);
      if (one.type != MPI_DATATYPE_NULL) MPI_Type_free(&one.type);
    }
    for (Strided& one : strided_)
      if (one.type != MPI_DATATYPE_NULL) MPI_Type_free(&one.type);
  }

  MPI_Op operation(MPI_User_function* function, bool commutes = true) {
    for (const Made& one : made_)
      if (one.function == function) return one.operation;
    Made made{.function = function};
    check(MPI_Op_create(function, commutes ? 1 : 0, &made.operation), "MPI_Op_create");
    made_.push_back(made);
    return made.operation;
  }

  MPI_Datatype bytes(int size) {
    for (const Made& one : made_)
      if (one.size == size) return one.type;
    Made made{.size = size};
    check(MPI_Type_contiguous(size, MPI_BYTE, &made.type), "MPI_Type_contiguous");
    check(MPI_Type_commit(&made.type), "MPI_Type_commit");
    made_.push_back(made);
    return made.type;
  }

  /// The elements of a shape, in their order: kept until as many others as `strided_` has places have been asked for,
  /// which operations under way don't mind: for one that starts at once. To make a type takes as long as a small
  /// message. Throws CommError.
  MPI_Datatype strided(const Shape& shape, MPI_Datatype element, std::size_t element_bytes) {
    for (const Strided& one : strided_)
      if (one.element == element && one.shape == shape) return one.type;
    const MPI_Datatype made = make_strided(shape, element, element_bytes);
    Strided& oldest = strided_[next_strided_++ % strided_.size()];
    if (oldest.type != MPI_DATATYPE_NULL) MPI_Type_free(&oldest.type);
    oldest = {shape, element, made};
    return made;
  }

 private:
  /// An operation, by its function, or a type of so many bytes.
  struct Made {
    MPI_User_function* function = nullptr;
    int size = -1;
    MPI_Op operation = MPI_OP_NULL;
    MPI_Datatype type = MPI_DATATYPE_NULL;
  };
  struct Strided {
    Shape shape;
    MPI_Datatype element = MPI_DATATYPE_NULL, type = MPI_DATATYPE_NULL;
  };

  static MPI_Datatype make_strided(const Shape& shape, MPI_Datatype element, std::size_t element_bytes) {
    MPI_Datatype type = element;
    const bool lines = shape.stride[0] == 1;
    int length = lines ? static_cast<int>(shape.extent[0]) : 1;  // of a block
    for (int d = lines && shape.rank > 1 ? 1 : 0; d < shape.rank; ++d) {
      MPI_Datatype inner = type;
      const int code = MPI_Type_create_hvector(static_cast<int>(shape.extent[d]), length,
                                               static_cast<MPI_Aint>(shape.stride[d] * element_bytes), inner, &type);
      if (inner != element) MPI_Type_free(&inner);
      check(code, "MPI_Type_create_hvector");
      length = 1;
    }
    check(MPI_Type_commit(&type), "MPI_Type_commit");
    return type;
  }

  std::vector<Made> made_;
  std::array<Strided, 8> strided_{};
  std::size_t next_strided_ = 0;
};

}  // namespace kerkis::comm
