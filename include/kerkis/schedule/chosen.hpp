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
  return Table(shape, std::vector<ActionList>(static_cast<std::size_t>(shape.ranks)), stages_of<S>(shape));
}

/// A schedule as a value, for what is chosen when the program runs: by name (`choose`), from a type (`of`), or from any
/// function that makes a table.
class Chosen {
 public:
  using Make = std::function<Table(PipelineShape)>;  ///< a table for a shape

  /// `table` gives the order for a shape, `placement` the stages alone; both throw InputError for a shape that the
  /// schedule can't do.
  Chosen(std::string name, Make table, Make placement)
      : name_(std::move(name)), table_(std::move(table)), placement_(std::move(placement)) {}

  /// A schedule whose type is known.
  template <Schedule S>
  [[nodiscard]] static Chosen of() {
    return Chosen(
        std::string(S::name), [](PipelineShape shape) { return make_table<S>(checked_shape<S>(shape)); },
        [](PipelineShape shape) { return schedule::placement<S>(checked_shape<S>(shape)); });
  }

  /// For messages.
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// A schedule that fixes its chunks per rank has them if the shape says 1.
  [[nodiscard]] Table table(PipelineShape shape) const { return table_(shape); }
  /// The stages of that table, without any action.
  [[nodiscard]] Table placement(PipelineShape shape) const { return placement_(shape); }

 private:
  std::string name_;
  Make table_, placement_;
};

}  // namespace kerkis::schedule
