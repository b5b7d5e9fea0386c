// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: communication takes Kokkos Views
// EXPECT 2: communication takes Kokkos Views
// EXPECT 3: options in braces: {.operation = Reduction::maximum}
// EXPECT 4: options in braces: {.operation = Reduction::maximum}
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/persistent_hand_off.hpp>
#include <kerkis/comm/scan.hpp>

#include <type_traits>
#include <vector>

using Buffer = Kokkos::View<float*, Kokkos::HostSpace>;
template <int mistake>
using Sent = std::conditional_t<KERKIS_MISTAKE == mistake, std::vector<float>, Buffer>;

/// As options, or bare.
template <int mistake, class Options>
constexpr auto maximum() {
  if constexpr (KERKIS_MISTAKE == mistake)
    return kerkis::Reduction::maximum;
  else
    return Options{.operation = kerkis::Reduction::maximum};
}

void operations(const kerkis::Communicator& world, const Sent<1>& first, const Sent<2>& second, const Buffer& buffer) {
  const Kokkos::DefaultHostExecutionSpace host;
  kerkis::send(host, world, first, {.to = 1});
  kerkis::persistent_send(host, world, second, {.to = 1});
  kerkis::all_reduce(host, world, buffer, maximum<3, kerkis::AllReduceOptions>());
  kerkis::scan(host, world, buffer, maximum<4, kerkis::ScanOptions>());
}
