// SPDX-License-Identifier: Apache-2.0
// EXPECT 1: communication takes Views of arithmetic types, .* or trivially copyable structs
// EXPECT 2: communication takes Views of arithmetic types, .* or trivially copyable structs
// EXPECT 3: the elements of a reduction are trivially copyable
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/hand_off.hpp>

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

void operations(const kerkis::Communicator& world, const View<1>& sent, const View<2>& received,
                const View<3>& reduced) {
  const Kokkos::DefaultHostExecutionSpace host;
  kerkis::send(host, world, sent, {.to = 1});
  kerkis::receive(host, world, received, {.from = 1});
  kerkis::all_reduce<First<Element<3>>>(host, world, reduced);
}
