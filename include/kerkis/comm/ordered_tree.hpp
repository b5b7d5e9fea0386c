// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <kerkis/comm/reduction.hpp>

namespace kerkis::comm {

// Reduction in an order that depends on nothing but the number of shards: the pairwise tree over their index. Its level
// k joins shards [2j·2^k, (2j+1)·2^k) with [(2j+1)·2^k, (2j+2)·2^k), cut at the number of shards; what has no partner
// goes up as it is. The error of a sum grows with the logarithm of that number (N. Higham, The accuracy of floating
// point summation, SIAM Journal on Scientific Computing 14, 1993).

/// The type in which elements are reduced: float for the half types, which are rounded once, at the end.
template <class T>
using Accumulator = std::conditional_t<is_half<T>, float, T>;

/// A whole node of the tree: shards [begin, begin + size), size a power of two, begin a multiple of it.
struct TreeNode {
  std::size_t begin = 0, size = 0;

  /// Whether `right`, which follows, is the other half of their parent.
  constexpr bool pairs_with(const TreeNode& right) const { return size == right.size && begin % (2 * size) == 0; }
};

/// Calls `f(TreeNode)` for the fewest nodes that make up the shards [begin, end), in order.
template <class F>
constexpr void for_each_node(std::size_t begin, std::size_t end, F&& f) {
  while (begin < end) {
    const std::size_t room = std::bit_floor(end - begin);
    const std::size_t size = begin == 0 ? room : std::min(room, std::size_t{1} << std::countr_zero(begin));
    f(TreeNode{begin, size});
    begin += size;
  }
}

/// left[i] = left[i] ∘ right[i]
template <class T>
using Merge = void (*)(T* left, const T* right, std::size_t count);

template <class T>
struct NamedMerge {
  Merge<T> merge;
  const char* name;
};

template <class T, class F>
void merge_by(T* __restrict left, const T* __restrict right, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) left[i] = F()(left[i], right[i]);
}

/// Integers wrap around, as in MPI.
struct Plus {
  template <class T>
  T operator()(const T& a, const T& b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
    else
      return a + b;
  }
};
struct Times {
  template <class T>
  T operator()(const T& a, const T& b) const {
    if constexpr (std::is_integral_v<T>)
      return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
    else if constexpr (is_complex<T>)
      return ComplexProduct()(a, b);
    else
      return a * b;
  }
};
template <bool minimum>
struct Extreme {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (std::is_integral_v<T>)
      return (b < a) == minimum ? b : a;
    else
      return Extremum<minimum>()(a, b);
  }
};
template <Reduction reduction>
struct Bits {
  template <class T>
  T operator()(T a, T b) const {
    if constexpr (reduction == Reduction::logical_and) return static_cast<T>(a != T(0) && b != T(0));
    if constexpr (reduction == Reduction::logical_or) return static_cast<T>(a != T(0) || b != T(0));
    if constexpr (reduction == Reduction::logical_xor) return static_cast<T>((a != T(0)) != (b != T(0)));
    if constexpr (reduction == Reduction::bitwise_and) return static_cast<T>(a & b);
    if constexpr (reduction == Reduction::bitwise_or) return static_cast<T>(a | b);
    if constexpr (reduction == Reduction::bitwise_xor) return static_cast<T>(a ^ b);
  }
};

/// How elements T are merged: by the functor or, for `Named`, as the option says. Throws InputError if they cannot.
template <class T, class Functor>
NamedMerge<Accumulator<T>> merge_of([[maybe_unused]] Reduction reduction, [[maybe_unused]] Caller caller) {
  using A = Accumulator<T>;
  if constexpr (!std::is_same_v<Functor, Named>) {
    static_assert(std::is_same_v<A, T>, "kerkis: the half types are reduced by the named operations only");
    return {&merge_by<A, Functor>, type_name<Functor>()};
  } else {
    static_assert(is_element<T>, "kerkis: a reduction of elements that are no numbers takes a functor");
    constexpr bool integral = std::is_integral_v<T>, ordered = integral || std::is_floating_point_v<A>;
    if constexpr (!std::is_same_v<T, bool>) {
      if (reduction == Reduction::sum) return {&merge_by<A, Plus>, "sum"};
      if (reduction == Reduction::product) return {&merge_by<A, Times>, "product"};
    }
    if constexpr (ordered) {
      if (reduction == Reduction::minimum) return {&merge_by<A, Extreme<true>>, "minimum"};
      if (reduction == Reduction::maximum) return {&merge_by<A, Extreme<false>>, "maximum"};
    }
    if constexpr (integral) {
      using enum Reduction;
      if (reduction == logical_and) return {&merge_by<A, Bits<logical_and>>, "logical and"};
      if (reduction == logical_or) return {&merge_by<A, Bits<logical_or>>, "logical or"};
      if (reduction == logical_xor) return {&merge_by<A, Bits<logical_xor>>, "logical xor"};
      if (reduction == bitwise_and) return {&merge_by<A, Bits<bitwise_and>>, "bitwise and"};
      if (reduction == bitwise_or) return {&merge_by<A, Bits<bitwise_or>>, "bitwise or"};
      if (reduction == bitwise_xor) return {&merge_by<A, Bits<bitwise_xor>>, "bitwise xor"};
    }
    throw no_reduction<T>(reduction, caller);
  }
}

/// So many elements are reduced at a time, in the cache.
inline constexpr std::size_t tree_block = 256;

/// Bytes of scratch memory that `reduce_tree` needs for nodes of so many shards.
template <class A>
constexpr std::size_t tree_scratch(std::size_t shards) {
  return (static_cast<std::size_t>(std::bit_width(shards)) + 2) * tree_block * sizeof(A);
}

/// The value of the tree above `nodes`, which follow each other: that of node j is the `length` elements at
/// `first + j * stride`. Writes `out`, which may be the memory of a node.
template <class A, class In, class Out>
void reduce_tree(Merge<A> merge, std::span<const TreeNode> nodes, const In* first, std::size_t stride,
                 std::size_t length, Out* out, void* scratch) {
  A* const spare = static_cast<A*>(scratch);
  A* const stack = spare + tree_block;
  std::array<TreeNode, 66> kept;
  for (std::size_t at = 0; at < length; at += tree_block) {
    const std::size_t count = std::min(tree_block, length - at);
    const auto convert = [count](A* __restrict to, const In* __restrict from) {
      for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<A>(from[i]);
    };
    std::size_t depth = 0;
    for (std::size_t j = 0; j < nodes.size(); ++j) {
      const In* const in = first + j * stride + at;
      if (depth > 0 && kept[depth - 1].pairs_with(nodes[j])) {
        A* const top = stack + (depth - 1) * tree_block;
        if constexpr (std::is_same_v<A, In>) {
          merge(top, in, count);
        } else {
          convert(spare, in);
          merge(top, spare, count);
        }
        kept[depth - 1].size *= 2;
      } else {
        convert(stack + depth * tree_block, in);
        kept[depth++] = nodes[j];
      }
      for (; depth > 1 && kept[depth - 2].pairs_with(kept[depth - 1]); --depth) {
        merge(stack + (depth - 2) * tree_block, stack + (depth - 1) * tree_block, count);
        kept[depth - 2].size *= 2;
      }
    }
    for (; depth > 1; --depth) merge(stack + (depth - 2) * tree_block, stack + (depth - 1) * tree_block, count);
    for (std::size_t i = 0; i < count; ++i) out[at + i] = static_cast<Out>(stack[i]);
  }
}

}  // namespace kerkis::comm
