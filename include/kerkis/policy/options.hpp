// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <type_traits>

namespace kerkis::policy {

/// The first of `Options` for which `Is<Option>` holds, or `Default`.
template <template <class> class Is, class Default, class... Options>
struct find_option {
  using type = Default;
};
template <template <class> class Is, class Default, class First, class... Rest>
struct find_option<Is, Default, First, Rest...> {
  using type =
      typename std::conditional_t<Is<First>::value, std::type_identity<First>, find_option<Is, Default, Rest...>>::type;
};

/// How many of `Options` satisfy `Is`.
template <template <class> class Is, class... Options>
inline constexpr int count_options = (0 + ... + (Is<Options>::value ? 1 : 0));

}  // namespace kerkis::policy
