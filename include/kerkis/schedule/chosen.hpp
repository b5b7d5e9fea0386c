// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kerkis/core/error.hpp>
#include <kerkis/schedule/table.hpp>

namespace kerkis::schedule {

/// The table of a schedule with its stages but without any action: where the layers lie, whatever the microbatches are.
template <Schedule S>
[[nodiscard]] constexpr Table placement(PipelineShape shape) {
  shape = shape_for<S>(shape);
  std::vector<int> stages;
  if constexpr (requires { S::stage(shape, 0, 0); }) {
    for (int rank = 0; rank < shape.ranks; ++rank) {
      for (int chunk = 0; chunk < shape.chunks; ++chunk) stages.push_back(S::stage(shape, rank, chunk));
    }
  }
  return Table(shape, std::vector<ActionList>(static_cast<std::size_t>(shape.ranks)), std::move(stages));
}

/// A schedule as a value, for what is chosen when the program runs: by name (`choose`), from a type (`of`), or from any
/// function that makes a table.
class Chosen {
 public:
  using Make = std::function<Table(PipelineShape)>;

  /// `table` gives the order for a shape, `placement` the stages alone; both throw InputError for a shape that the
  /// schedule can't do.
  Chosen(std::string name, Make table, Make placement)
      : name_(std::move(name)), table_(std::move(table)), placement_(std::move(placement)) {}

  template <Schedule S>
  [[nodiscard]] static Chosen of() {
    const auto check = [](PipelineShape shape) {
      require(shape.ranks >= 1 && shape.microbatches >= 1 && shape.chunks >= 1, "a pipeline of ", shape.ranks,
              " ranks, ", shape.microbatches, " microbatches and ", shape.chunks,
              " chunks per rank: each must be 1 or more");
      const int chunks = shape_for<S>(shape).chunks;
      require(shape.chunks == 1 || shape.chunks == chunks, "the schedule ", std::string_view(S::name), " has ", chunks,
              chunks == 1 ? " chunk" : " chunks", " per rank, not ", shape.chunks);
    };
    return Chosen(
        std::string(S::name), [check](PipelineShape shape) { return check(shape), make_table<S>(shape); },
        [check](PipelineShape shape) { return check(shape), schedule::placement<S>(shape); });
  }

  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// A schedule that fixes its chunks per rank has them if the shape says 1.
  [[nodiscard]] Table table(PipelineShape shape) const { return table_(shape); }
  [[nodiscard]] Table placement(PipelineShape shape) const { return placement_(shape); }

 private:
  std::string name_;
  Make table_, placement_;
};

}  // namespace kerkis::schedule
