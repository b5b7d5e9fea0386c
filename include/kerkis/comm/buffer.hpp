// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <chrono>
#include <limits>
#include <memory>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>

#include <kerkis/comm/communicator.hpp>
#include <kerkis/comm/datatype.hpp>

namespace kerkis::comm {

/// A contiguous host View as MPI takes it. Every operation fences its execution-space instance before MPI reads or
/// writes a buffer.
template <class View>
struct Buffer {
  static_assert(Kokkos::is_view_v<View>, "kerkis: communication takes Kokkos Views");
  static_assert(Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename View::memory_space>::accessible,
                "kerkis: communication takes Views in memory that the host can reach");
  using Element = typename View::non_const_value_type;

  explicit Buffer(const View& view, const char* operation)
      : data(view.data()), count(static_cast<int>(view.size())), type(datatype<Element>()) {
    // Labels are strings, made for messages only.
    if (view.size() > 0 && !view.span_is_contiguous())
      throw InputError(message(operation, " takes contiguous Views; '", view.label(), "' has gaps"));
    if (view.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()))
      throw InputError(message(operation, " takes at most 2^31 - 1 elements; '", view.label(), "' has ", view.size()));
  }

  typename View::pointer_type data;
  int count;
  Datatype type;
};

/// Copies the elements as they lie in memory: what is left of an operation over one rank.
template <class ExecutionSpace, class Send, class Receive>
void copy(const ExecutionSpace& execution, const Buffer<Send>& from, const Buffer<Receive>& to) {
  using Element = typename Buffer<Receive>::Element;
  const auto count = static_cast<std::size_t>(to.count);
  Kokkos::deep_copy(
      execution, Kokkos::View<Element*, typename Receive::memory_space, Kokkos::MemoryUnmanaged>(to.data, count),
      Kokkos::View<const Element*, typename Send::memory_space, Kokkos::MemoryUnmanaged>(from.data, count));
}

/// What keeps the memory of managed Views alive during an operation; nothing for unmanaged ones.
template <class... Views>
std::unique_ptr<Steps> keep_alive(const Views&... views) {
  if ((... || (views.use_count() > 0))) return std::make_unique<KeepAlive<Views...>>(views...);
  return nullptr;
}

template <class View>
constexpr bool is_writable = !std::is_const_v<typename View::value_type>;

}  // namespace kerkis::comm
