// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <kerkis/comm/communicator.hpp>
#include <kerkis/mesh/placement.hpp>
#include <kerkis/policy/axis.hpp>
#include <kerkis/policy/hybrid.hpp>

namespace kerkis {

/// The ranks of a communicator as the grid that `Plan` describes, with one communicator per axis. Tensor neighbours are
/// closest, then data, then pipeline, unless `Place` says otherwise.
///
/// At most one dynamic extent may be left to the world; the others are given by name: Mesh<Plan> mesh(comm, tensor(2),
/// pipeline(2)). Throws InputError on every rank if the grid does not fit the communicator. Collective.
template <class Plan, class Place = Placement<>>
class Mesh {
  using Traits = plan_traits<Plan>;

 public:
  /// One rank, without MPI. Every extent is 1.
  Mesh() : Mesh(nullptr, 1, {}, {}) {
    require(size_ == 1, "a mesh without a communicator has one rank; the plan ", description(), " wants ", size_);
  }

  /// The grid over the ranks of `user`, which is duplicated and stays the caller's; MPI_COMM_NULL is an InputError.
  template <class... Axes>
  explicit Mesh(MPI_Comm user, AxisExtent<Axes>... extents) : Mesh(user, CommunicatorOptions(), extents...) {}

  /// The same where all its communicators have these options: Mesh<Plan> mesh(comm, {.wait = {.deadline = 60s}},
  /// tensor(2)). A mesh of one rank communicates nothing, and needs none.
  template <class... Axes>
  Mesh(MPI_Comm user, const CommunicatorOptions& options, AxisExtent<Axes>... extents)
      : Mesh(&user, size_of(user), {Named{Axes::name, extents.value}...}, options) {
    static_assert((... && !std::is_void_v<typename Traits::template on<Axes>>),
                  "kerkis: an extent is given for an axis that the plan does not have");
    static_assert((... && (Traits::template extent<Axes> == dynamic)),
                  "kerkis: an extent is given for an axis whose extent the plan fixes");
    static_assert(sizeof...(Axes) <= 1 || are_different<Axes...>(), "kerkis: the extent of an axis is given twice");
  }

  /// The whole grid.
  const Communicator& world() const { return world_; }
  /// The ranks that differ from this one on `Axis` only, in the order of their coordinate. The group of one if the axis
  /// is.
  template <class Axis>
  const Communicator& communicator() const {
    return find(Axis::name).communicator;
  }
  /// Ranks on `Axis`.
  template <class Axis>
  int extent() const {
    if constexpr (Traits::template extent<Axis> != dynamic)
      return static_cast<int>(Traits::template extent<Axis>);
    else
      return static_cast<int>(find(Axis::name).extent);
  }
  /// This rank's place on `Axis`, from 0.
  template <class Axis>
  int coordinate() const {
    if constexpr (Traits::template extent<Axis> == 1)
      return 0;
    else
      return find(Axis::name).coordinate;
  }

  /// "data 2 × tensor 2 × pipeline 2", in the order of placement, the farthest first.
  std::string description() const {
    std::string words;
    for (auto axis = axes_.rbegin(); axis != axes_.rend(); ++axis)
      words += message(words.empty() ? "" : " × ", axis->name,
                       axis->extent == dynamic ? std::string() : message(" ", axis->extent));
    return words.empty() ? "serial" : words;
  }

 private:
  template <class A, class... Axes>
  static constexpr int count = (0 + ... + (std::is_same_v<A, Axes> ? 1 : 0));
  template <class... Axes>
  static constexpr bool are_different() {
    return (... && (count<Axes, Axes...> == 1));
  }

  struct Named {
    std::string_view name;
    std::size_t extent;
  };
  struct Axis {
    std::string_view name;
    int place;
    std::size_t extent;
    int coordinate = 0;
    Communicator communicator;
  };

  Mesh(const MPI_Comm* user, std::size_t ranks, std::vector<Named> given, const CommunicatorOptions& options)
      : size_(ranks) {
    Traits::for_each(
        [&]<class P>() { axes_.push_back({P::axis::name, mesh::place<typename P::axis>(Place{}), P::extent, 0, {}}); });
    std::stable_sort(axes_.begin(), axes_.end(), [](const Axis& a, const Axis& b) { return a.place < b.place; });
    resolve(given);
    if (user == nullptr || ranks == 1) return;

    world_ = Communicator(*user, "world", options);
    std::size_t stride = 1;
    const auto rank = static_cast<std::size_t>(world_.rank());
    for (Axis& axis : axes_) {
      axis.coordinate = static_cast<int>(rank / stride % axis.extent);
      if (axis.extent > 1) {
        const std::size_t color = rank - static_cast<std::size_t>(axis.coordinate) * stride;
        axis.communicator = world_.split(static_cast<int>(color), axis.coordinate, std::string(axis.name));
      }
      stride *= axis.extent;
    }
  }

  /// Fills in the extents that the plan leaves open, or refuses.
  void resolve(const std::vector<Named>& given) {
    for (const Named& named : given) find(named.name).extent = named.extent;
    constexpr std::size_t most = std::numeric_limits<std::size_t>::max();
    std::size_t known = 1;  // stops at `most`: such a grid fits no communicator
    Axis* open = nullptr;
    for (Axis& axis : axes_) {
      if (axis.extent != dynamic) {
        require(axis.extent > 0, "the extent of the ", axis.name, " axis is 0");
        known = axis.extent <= most / known ? known * axis.extent : most;
        continue;
      }
      require(open == nullptr, "the plan ", description(),
              " leaves more than one extent open: give all but one by name");
      open = &axis;
    }
    const std::string plan = description();
    if (open != nullptr) {
      require(size_ % known == 0, "the plan ", plan, " does not fit ", size_,
              " ranks: their number must be a multiple of ", known);
      open->extent = size_ / known;
    } else {
      require(size_ == known, "the plan ", plan, " needs ", known, " ranks, the communicator has ", size_);
    }
  }

  static std::size_t size_of(MPI_Comm user) {
    require(comm::mpi_is_alive(),
            "a Mesh over a communicator needs MPI: MPI_Init has not been called, or MPI_Finalize has");
    require(user != MPI_COMM_NULL, "a Mesh over MPI_COMM_NULL: this rank is in none");
    int size = 0;
    comm::check(MPI_Comm_size(user, &size), "MPI_Comm_size");
    return static_cast<std::size_t>(size);
  }

  template <class Axes>
  static auto& find_in(Axes& axes, std::string_view name) {
    for (auto& axis : axes)
      if (axis.name == name) return axis;
    static std::remove_reference_t<decltype(axes.front())> none{"", 0, 1, 0, {}};
    return none;
  }
  Axis& find(std::string_view name) { return find_in(axes_, name); }
  const Axis& find(std::string_view name) const { return find_in(axes_, name); }

  std::size_t size_;
  std::vector<Axis> axes_;  ///< the closest first
  Communicator world_;
};

}  // namespace kerkis
