// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <type_traits>

#include <kerkis/policy/extent.hpp>

namespace kerkis {

/// What a type needs to be a policy: an axis and an extent (`dynamic` if the run decides).
template <class P>
concept Policy = requires {
  typename P::axis;
  { P::extent } -> std::convertible_to<std::size_t>;
};

/// A plan of several policies, each on an axis of its own. The order says nothing about the placement of ranks.
template <class... Policies>
struct Hybrid;

namespace policy {
template <class T>
struct is_hybrid : std::false_type {};
template <class... Policies>
struct is_hybrid<Hybrid<Policies...>> : std::true_type {};

/// The policy that lies on `Axis`, or void.
template <class Axis, class... Policies>
struct policy_on {
  using type = void;
};
template <class Axis, class P, class... Rest>
struct policy_on<Axis, P, Rest...> {
  using type = typename std::conditional_t<std::is_same_v<typename P::axis, Axis>, std::type_identity<P>,
                                           policy_on<Axis, Rest...>>::type;
};

/// How many of `Policies` lie on `Axis`. What is no policy lies on none.
template <class Axis, class... Policies>
constexpr int on_axis() {
  return (0 + ... + [] {
    if constexpr (Policy<Policies>)
      return std::is_same_v<typename Policies::axis, Axis> ? 1 : 0;
    else
      return 0;
  }());
}
template <class P, class... Policies>
constexpr bool is_alone() {
  if constexpr (Policy<P>)
    return on_axis<typename P::axis, Policies...>() == 1;
  else
    return true;
}
}  // namespace policy

template <class... Policies>
struct Hybrid {
  static_assert((... && !policy::is_hybrid<Policies>::value),
                "kerkis: a Hybrid does not nest: list all its policies side by side");
  static_assert((... && (Policy<Policies> || policy::is_hybrid<Policies>::value)),
                "kerkis: a Hybrid takes policies, such as DataParallel<>, TensorParallel<2> or Pipeline<2, GPipe>");
  static_assert((... && policy::is_alone<Policies, Policies...>()),
                "kerkis: two policies of this Hybrid share an axis: each may be there once");
};

/// Every axis is 1.
using Serial = Hybrid<>;

/// What follows from a plan, which is a policy or a Hybrid.
template <class Plan>
struct plan_traits : plan_traits<Hybrid<Plan>> {};

/// The same of a Hybrid.
template <class... Policies>
struct plan_traits<Hybrid<Policies...>> {
  static_assert(sizeof(Hybrid<Policies...>) > 0);  // its own checks speak first

  /// Calls f.template operator()<P>() for every policy P.
  template <class F>
  static constexpr void for_each(F&& f) {
    (f.template operator()<Policies>(), ...);
  }

  /// The policy on `Axis`, or void.
  template <class Axis>
  using on = typename policy::policy_on<Axis, Policies...>::type;

  /// 1 where there is no policy on `Axis`.
  template <class Axis>
  static constexpr std::size_t extent = [] {
    std::size_t result = 1;
    for_each([&]<class P>() {
      if (std::is_same_v<typename P::axis, Axis>) result = P::extent;
    });
    return result;
  }();
};

}  // namespace kerkis
