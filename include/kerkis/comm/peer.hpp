// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace kerkis {

/// Of a receive: from whoever sends first.
inline constexpr int any_rank = -1;
/// Of a send or receive: the peer is not given. Of an exchange: nobody is there, nothing moves that way.
inline constexpr int no_rank = -2;

}  // namespace kerkis
