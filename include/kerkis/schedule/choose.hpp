// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <kerkis/schedule/automatic.hpp>
#include <kerkis/schedule/chosen.hpp>
#include <kerkis/schedule/registry.hpp>

namespace kerkis::schedule {

/// A schedule made for given times and memory.
[[nodiscard]] inline Chosen choose(Automatic automatic) {
  return Chosen(
      std::string(Automatic::name), [automatic](PipelineShape shape) { return automatic.table(shape); },
      [](PipelineShape shape) {
        require(shape.chunks == 1, "automatic: ", shape.chunks, " chunks per rank; it places one");
        return Table(shape, std::vector<ActionList>(static_cast<std::size_t>(shape.ranks)));
      });
}

/// The schedule of that name: one of Known::names, or "automatic" for equal times and the memory that it takes by
/// itself. Throws InputError with all names if there is none.
[[nodiscard]] inline Chosen choose(std::string_view name) {
  if (name == Automatic::name) return choose(Automatic{});
  std::optional<Chosen> chosen;
  Known::visit(name, [&]<class S>() {
    const auto checked = [](PipelineShape shape) { return make_table(S::name, shape); };
    chosen.emplace(std::string(S::name), checked, [of = Chosen::of<S>()](PipelineShape s) { return of.placement(s); });
  });
  return *std::move(chosen);
}

}  // namespace kerkis::schedule
