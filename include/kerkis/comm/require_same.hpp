// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/checking.hpp>
#include <kerkis/comm/communicator.hpp>
#include <kerkis/core/error.hpp>

namespace kerkis {

/// Something that must be the same on all ranks, for `require_same`.
struct Same {
  std::string name;   ///< "seed"
  std::string value;  ///< as words: message(options.seed)
};

/// Throws InputError on every rank, with the first of `values` that differs, if not all ranks of `communicator` give
/// the same; `what` they belong to, such as "trainer". One small reduction; every rank gives as many values, in the
/// same order. For options, before anything is done with them: ranks that go by different ones compute nonsense or wait
/// for each other.
inline void require_same(const Communicator& communicator, std::string_view what, const std::vector<Same>& values) {
  if (communicator.size() == 1) return;
  const Kokkos::DefaultHostExecutionSpace execution;
  using Numbers = Kokkos::View<std::uint64_t*, Kokkos::HostSpace>;
  const Numbers extremes("kerkis::same", 2 * values.size());  // of checksums: the least, and the complement of the most
  const auto sum = [](const Same& same) { return comm::checksum_of(same.value.data(), same.value.size()); };
  for (std::size_t i = 0; i < values.size(); ++i) extremes(2 * i + 1) = ~(extremes(2 * i) = sum(values[i]));
  all_reduce(execution, communicator, extremes, {.operation = Reduction::minimum}).wait();
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (extremes(2 * i) == ~extremes(2 * i + 1)) continue;
    constexpr std::size_t words = 8, room = (words - 1) * sizeof(std::uint64_t);
    const Numbers mine("kerkis::same", words),
        all("kerkis::same", words * static_cast<std::size_t>(communicator.size()));
    mine(0) = sum(values[i]);
    std::memcpy(&mine(1), values[i].value.data(), std::min(values[i].value.size(), room));
    all_gather(execution, communicator, mine, all).wait();
    std::size_t other = 1;
    while (all(words * other) == all(0)) ++other;
    const auto text = [&](std::size_t rank) {
      std::array<char, room + 1> held{};
      std::memcpy(held.data(), &all(words * rank + 1), room);
      return std::string(held.data());
    };
    throw InputError(message(what, ": ", values[i].name, " must be the same on all ranks: ", text(0), " on rank 0, ",
                             text(other), " on rank ", other));
  }
}

}  // namespace kerkis
