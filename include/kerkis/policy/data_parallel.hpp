// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kerkis/policy/axis.hpp>
#include <kerkis/policy/extent.hpp>
#include <kerkis/policy/options.hpp>

namespace kerkis {

/// Gradients are reduced in contiguous pieces of about this many bytes, each as soon as the backward pass has finished
/// it.
template <std::size_t bytes>
struct Buckets {
  static_assert(bytes > 0, "kerkis: Buckets<bytes> needs a size above 0");
  static constexpr std::size_t size = bytes;  ///< bytes
};

namespace policy {
template <class Option>
struct is_buckets : std::false_type {};
template <std::size_t bytes>
struct is_buckets<Buckets<bytes>> : std::true_type {};
}  // namespace policy

/// Every rank of the axis holds the same parameters and takes its share of the samples; gradients are summed. Li et al.
/// 2020, "PyTorch Distributed", arXiv:2006.15704. Options: Buckets<bytes>.
template <std::size_t N = dynamic, class... Options>
struct DataParallel {
  static_assert(N != 0, "kerkis: DataParallel<0>: an axis needs at least one rank");
  static_assert((... && (sizeof(Options) > 0)));  // their own checks speak first
  static_assert((... && policy::is_buckets<Options>::value),
                "kerkis: DataParallel takes the option Buckets<bytes>; one of those given is something else");
  static_assert(policy::count_options<policy::is_buckets, Options...> <= 1,
                "kerkis: DataParallel has the option Buckets twice");

  using axis = kerkis::axis::Data;
  static constexpr std::size_t extent = N;  ///< ranks, or `dynamic`
  /// Those of the option, or 4 MiB.
  static constexpr std::size_t bucket_bytes =
      policy::find_option<policy::is_buckets, Buckets<std::size_t{4} << 20>, Options...>::type::size;
};

}  // namespace kerkis
