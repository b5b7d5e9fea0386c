// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: kerkis: a Request is moved, not copied: std::move.request.
#include <kerkis/comm/request.hpp>

#include <utility>
#include <vector>

void keep(std::vector<kerkis::Request>& kept, kerkis::Request request) {
#if KERKIS_MISTAKE == 1
  kerkis::Request other = request;
#else
  kerkis::Request other = std::move(request);
#endif
  kept.push_back(std::move(other));
}
