// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: communication takes Views of .* or trivially copyable structs
// EXPECT 2: communication takes Views of .* or trivially copyable structs
// EXPECT 3: communication takes Views of .* or trivially copyable structs
// EXPECT 4: communication takes Views of .* or trivially copyable structs
// EXPECT 5: communication takes Views of .* or trivially copyable structs
// EXPECT 6: communication takes Views of .* or trivially copyable structs
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/exchange.hpp>

#include <type_traits>

struct Plain {
  int value;
};
/// Its bytes are not all there is to it.
struct Counted {
  Counted() = default;
  Counted(const Counted& other) : value(other.value) {}
  Counted& operator=(const Counted&) = default;
  int value;
};

template <class Element>
struct First {
  static constexpr bool commutes = false;
  Element operator()(const Element& a, const Element&) const { return a; }
};

template <int mistake>
using Element = std::conditional_t<KERKIS_MISTAKE == mistake, Counted, Plain>;
template <int mistake>
using View = Kokkos::View<Element<mistake>*, Kokkos::HostSpace>;

void operations(const kerkis::Communicator& world, const View<1>& sent, const View<2>& received, const View<3>& reduced,
                const View<4>& cast, const View<5>& gathered, const View<6>& exchanged) {
  const Kokkos::DefaultHostExecutionSpace host;
  kerkis::send(host, world, sent, {.to = 1});
  kerkis::receive(host, world, received, {.from = 1});
  kerkis::all_reduce<First<Element<3>>>(host, world, reduced);
  kerkis::broadcast(host, world, cast);
  kerkis::all_gather(host, world, gathered, View<5>("all", 4));
  kerkis::exchange(host, world, exchanged, {.with = 1});
}
