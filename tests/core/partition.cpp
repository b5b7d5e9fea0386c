// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <kerkis/core/partition.hpp>

#include <algorithm>
#include <cstdint>

namespace {

using kerkis::partition;
using kerkis::Range;

static_assert(partition(7, 2, 0) == Range{0, 4} && partition(7, 2, 1) == Range{4, 7});
static_assert(partition(2, 3, 2) == Range{2, 2} && partition(2, 3, 2).size() == 0);
static_assert(Range{2, 4}.contains(2) && Range{2, 4}.contains(3) && !Range{2, 4}.contains(4) &&
              !Range{2, 4}.contains(1));

TEST_CASE("shares follow each other, cover everything once, and differ by at most one") {
  for (std::int64_t count = 0; count <= 40; ++count) {
    for (std::int64_t parts = 1; parts <= 12; ++parts) {
      CAPTURE(count);
      CAPTURE(parts);
      std::int64_t end = 0, before = count;
      for (std::int64_t part = 0; part < parts; ++part) {
        const Range share = partition(count, parts, part);
        CHECK(share.begin == end);
        CHECK(share.size() >= count / parts);
        CHECK(share.size() <= (count + parts - 1) / parts);
        CHECK(share.size() <= before);  // the larger ones first
        end = share.end;
        before = share.size();
      }
      CHECK(end == count);
    }
  }
}

TEST_CASE("shares of counts beyond 32 bits") {
  constexpr std::int64_t count = (std::int64_t{1} << 40) + 1;
  CHECK(partition(count, 3, 0).begin == 0);
  CHECK(partition(count, 3, 2).end == count);
}

}  // namespace
