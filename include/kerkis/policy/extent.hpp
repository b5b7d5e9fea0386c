// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <limits>

namespace kerkis {

/// An extent that is known at run time only: given by name, or what the communicator leaves.
inline constexpr std::size_t dynamic = std::numeric_limits<std::size_t>::max();

}  // namespace kerkis
