// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <type_traits>

#include <kerkis/comm/shape.hpp>

namespace kerkis::comm {

/// The order of the elements of a View: the first index is the fastest.
template <class View>
inline constexpr bool first_index_fastest = std::is_same_v<typename View::array_layout, Kokkos::LayoutLeft>;

/// LayoutLeft Views go with their first index fastest, all others with their last.
template <class View>
Shape shape_of(const View& view) {
  static_assert(std::is_same_v<typename View::array_layout, Kokkos::LayoutLeft> ||
                    std::is_same_v<typename View::array_layout, Kokkos::LayoutRight> ||
                    std::is_same_v<typename View::array_layout, Kokkos::LayoutStride>,
                "kerkis: communication takes Views of LayoutLeft, LayoutRight or LayoutStride");
  constexpr std::size_t rank = View::rank;
  Shape shape;
  bool any = false;
  for (std::size_t i = 0; i != rank; ++i) {
    const std::size_t index = first_index_fastest<View> ? i : rank - 1 - i;
    const std::size_t extent = view.extent(index), stride = view.stride(index);
    if (extent == 1) continue;
    const int last = shape.rank - 1;
    if (!any) {
      shape.extent[0] = extent, shape.stride[0] = stride;
      any = true;
    } else if (stride == shape.stride[last] * shape.extent[last]) {
      shape.extent[last] *= extent;
    } else {
      shape.extent[shape.rank] = extent, shape.stride[shape.rank] = stride;
      ++shape.rank;
    }
  }
  return shape;
}

/// Whether a View's elements are one run of memory, in their order.
template <class View>
bool is_run(const View& view) {
  if constexpr (!std::is_same_v<typename View::array_layout, Kokkos::LayoutStride>)
    if (view.span_is_contiguous()) return true;
  return view.size() == 0 || shape_of(view).is_run();
}

namespace detail {

/// `bytes` 0: elements of any size.
template <bool packing, std::size_t bytes>
void copy_line(char* packed, char* strided, std::size_t count, std::size_t stride, std::size_t any) {
  const std::size_t size = bytes == 0 ? any : bytes;
  char* const to = packing ? packed : strided;
  const char* const from = packing ? strided : packed;
  if (stride == size && (bytes == 0 || count * size >= 64)) {
    std::memcpy(to, from, count * size);
    return;
  }
  for (std::size_t i = 0; i < count; ++i)
    if constexpr (packing)
      std::memcpy(to + i * size, from + i * stride, size);
    else
      std::memcpy(to + i * stride, from + i * size, size);
}

/// Elements `begin` to `end` of a shape, in host memory; `packed` is where element `begin` is.
template <bool packing, std::size_t bytes>
void copy_elements(char* packed, char* strided, const Shape& shape, std::size_t begin, std::size_t end,
                   std::size_t any) {
  const std::size_t size = bytes == 0 ? any : bytes;
  const std::size_t length = shape.extent[0], step = shape.stride[0] * size;
  std::size_t index[8] = {};
  std::size_t offset = 0;
  for (std::size_t d = 0, rest = begin; d < static_cast<std::size_t>(shape.rank); ++d) {
    index[d] = rest % shape.extent[d];
    rest /= shape.extent[d];
    offset += index[d] * shape.stride[d] * size;
  }
  while (begin < end) {
    std::size_t d;          // where the index has moved on
    std::size_t moved = 1;  // by how much
    if (index[0] > 0 || end - begin < length) {
      d = 0;
      moved = std::min(length - index[0], end - begin);
      copy_line<packing, bytes>(packed, strided + offset, moved, step, size);
      begin += moved;
      packed += moved * size;
    } else {
      d = 1;
      moved = std::min(shape.extent[1] - index[1], (end - begin) / length);
      const std::size_t line_step = shape.stride[1] * size;
      // If the lines cross the order of the memory, few of their elements at a time, so that cache lines are used up.
      const std::size_t tile = shape.stride[1] < shape.stride[0] && shape.rank > 1 ? std::size_t{64} : length;
      for (std::size_t first = 0; first < length; first += tile) {
        const std::size_t count = std::min(tile, length - first);
        char* line = packed + first * size;
        char* place = strided + offset + first * step;
        for (std::size_t i = 0; i < moved; ++i, line += length * size, place += line_step)
          copy_line<packing, bytes>(line, place, count, step, size);
      }
      begin += moved * length;
      packed += moved * length * size;
    }
    index[d] += moved;
    offset += moved * shape.stride[d] * size;
    for (; d < 7 && index[d] == shape.extent[d]; ++d) {
      offset -= index[d] * shape.stride[d] * size;
      index[d] = 0;
      ++index[d + 1];
      offset += shape.stride[d + 1] * size;
    }
  }
}

template <bool packing>
void copy_elements(char* packed, char* strided, const Shape& shape, std::size_t begin, std::size_t end,
                   std::size_t size) {
  switch (size) {
  case 1:
    return copy_elements<packing, 1>(packed, strided, shape, begin, end, size);
  case 2:
    return copy_elements<packing, 2>(packed, strided, shape, begin, end, size);
  case 4:
    return copy_elements<packing, 4>(packed, strided, shape, begin, end, size);
  case 8:
    return copy_elements<packing, 8>(packed, strided, shape, begin, end, size);
  case 16:
    return copy_elements<packing, 16>(packed, strided, shape, begin, end, size);
  default:
    return copy_elements<packing, 0>(packed, strided, shape, begin, end, size);
  }
}

/// One of `parts` slices, on a host execution space.
struct CopySlice {
  char* packed;
  char* strided;
  Shape shape;
  std::size_t begin, end, size, parts;
  bool packing;

  void operator()(std::size_t part) const {
    const std::size_t count = end - begin;
    const std::size_t first = begin + count / parts * part + std::min(part, count % parts);
    const std::size_t last = first + count / parts + (part < count % parts ? 1 : 0);
    char* const at = packed + (first - begin) * size;
    if (packing)
      copy_elements<true>(at, strided, shape, first, last, size);
    else
      copy_elements<false>(at, strided, shape, first, last, size);
  }
};

/// One element, on a device.
template <class Element>
struct CopyElement {
  Element* packed;
  Element* strided;
  Shape shape;
  std::size_t begin;
  bool packing;

  KOKKOS_FUNCTION void operator()(std::size_t i) const {
    std::size_t offset = 0, rest = begin + i;
    for (int d = 0; d + 1 < shape.rank; ++d) {
      offset += rest % shape.extent[d] * shape.stride[d];
      rest /= shape.extent[d];
    }
    offset += rest * shape.stride[shape.rank - 1];
    if (packing)
      packed[i] = strided[offset];
    else
      strided[offset] = packed[i];
  }
};

}  // namespace detail

/// Whether an execution space runs on the host's cores.
template <class ExecutionSpace>
inline constexpr bool runs_on_host = std::is_same_v<typename ExecutionSpace::memory_space, Kokkos::HostSpace>;

/// Fences an instance before its Views are communicated, and behind kernels that pack them. Kernels of Kokkos' host
/// back ends, but for HPX, have ended when the calls that start them return: there the fence is only for the tools that
/// listen, since it costs as much as the rest of a small operation.
template <class ExecutionSpace>
void fence(const ExecutionSpace& execution, const char* name) {
#ifdef KOKKOS_ENABLE_HPX
  constexpr bool synchronous =
      runs_on_host<ExecutionSpace> && !std::is_same_v<ExecutionSpace, Kokkos::Experimental::HPX>;
#else
  constexpr bool synchronous = runs_on_host<ExecutionSpace>;
#endif
  if (!synchronous || Kokkos::Tools::profileLibraryLoaded()) [[unlikely]]
    execution.fence(name);
}

/// Bytes below which one core copies sooner than several have been woken.
inline constexpr std::size_t parallel_copy_bytes = std::size_t{256} << 10;

/// Copies elements `begin` to `end` of a shape to a run (`packing`) or back. Ordered with what `execution` does, and
/// complete when it has been fenced; host memory under a device's execution space is read and written at once.
template <bool packing, class ExecutionSpace, class MemorySpace, class Element>
void copy_packed(const ExecutionSpace& execution, Element* packed, Element* strided, const Shape& shape,
                 std::size_t begin, std::size_t end) {
  constexpr bool reachable = Kokkos::SpaceAccessibility<ExecutionSpace, MemorySpace>::accessible;
  if (begin == end) return;
  if constexpr (!runs_on_host<ExecutionSpace> && reachable) {
    Kokkos::parallel_for(packing ? "kerkis::pack" : "kerkis::unpack",
                         Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>>(execution, 0, end - begin),
                         detail::CopyElement<Element>{packed, strided, shape, begin, packing});
  } else {
    char* const run = reinterpret_cast<char*>(packed);
    char* const there = reinterpret_cast<char*>(strided);
    if constexpr (runs_on_host<ExecutionSpace>) {
      const auto threads = static_cast<std::size_t>(execution.concurrency());
      if (threads > 1 && (end - begin) * sizeof(Element) >= parallel_copy_bytes) {
        Kokkos::parallel_for(packing ? "kerkis::pack" : "kerkis::unpack",
                             Kokkos::RangePolicy<ExecutionSpace, Kokkos::IndexType<std::size_t>>(execution, 0, threads),
                             detail::CopySlice{run, there, shape, begin, end, sizeof(Element), threads, packing});
        return;
      }
    }
    detail::copy_elements<packing>(run, there, shape, begin, end, sizeof(Element));
  }
}

}  // namespace kerkis::comm
