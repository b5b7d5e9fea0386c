// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>

/// The version of the library, as in its CMake package: compatible within one minor version until 1.0.
#define KERKIS_VERSION_MAJOR 0
#define KERKIS_VERSION_MINOR 1
#define KERKIS_VERSION_PATCH 0

namespace kerkis {

/// A version that compares.
struct Version {
  int major_number;  ///< grows where programs must change
  int minor_number;  ///< grows with what is new; until 1.0 also where programs must change
  int patch_number;  ///< grows with repairs

  friend constexpr auto operator<=>(const Version&, const Version&) = default;
};

/// Of these headers.
inline constexpr Version version{KERKIS_VERSION_MAJOR, KERKIS_VERSION_MINOR, KERKIS_VERSION_PATCH};

}  // namespace kerkis
