// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include <kerkis/comm/communicator.hpp>
#include <kerkis/comm/datatype.hpp>

namespace kerkis::comm {

/// A run of elements that MPI can read or write.
template <class Element>
struct Run {
  Element* data;
  std::size_t count;
  Datatype type;
};

/// What an operation does with a View.
enum class Access { read, write, read_write };

/// The elements of a View as one run in memory that MPI can reach: the View's own memory where it has no gaps.
/// The execution-space instance has been fenced when the constructor returns.
template <Access access, class ExecutionSpace, class View>
class Wire {
 public:
  static_assert(Kokkos::is_view_v<View>, "kerkis: communication takes Kokkos Views");
  static_assert(access == Access::read || !std::is_const_v<typename View::value_type>,
                "kerkis: communication writes to this View, which must not be const");
  using Element = typename View::non_const_value_type;

  Wire(const ExecutionSpace& execution, const Communicator&, const View& view, const char* fence) : view_(view) {
    execution.fence(fence);
  }

  Run<Element> run() const { return {const_cast<Element*>(view_.data()), view_.size(), datatype<Element>()}; }

  /// Whether something has to live, or to be done, until the operation is complete.
  bool needed() const { return view_.use_count() > 0; }

  /// Puts what has come where the View is.
  void finish() {}

 private:
  View view_;
};

/// Keeps wires until an operation is complete, and finishes them.
template <class... Wires>
class KeepWires final : public Steps {
 public:
  explicit KeepWires(Wires&&... wires) : wires_(std::move(wires)...) {}
  bool next(MPI_Request&) override {
    std::apply([](Wires&... wires) { (wires.finish(), ...); }, wires_);
    return true;
  }

 private:
  std::tuple<Wires...> wires_;
};

/// Null if there is nothing to keep.
template <class... Wires>
std::unique_ptr<Steps> keep(Wires... wires) {
  if ((... || wires.needed())) return std::make_unique<KeepWires<Wires...>>(std::move(wires)...);
  return nullptr;
}

}  // namespace kerkis::comm
