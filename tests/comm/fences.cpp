// SPDX-License-Identifier: Apache-2.0
// What a tool of Kokkos sees of operations: fences with the library's names, of the instance that was given and no
// other.
#include <doctest/doctest.h>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/persistent_collective.hpp>
#include <kerkis/comm/persistent_hand_off.hpp>
#include <kerkis/comm/request_range.hpp>
#include <kerkis/comm/shift.hpp>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "views.hpp"

namespace {

using kerkis::Communicator;
using views::Host;

struct Fence {
  std::string name;
  std::uint32_t instance;  ///< of all instances at once: a number that none has
};

/// The fences of this process for as long as it lives.
class Fences {
 public:
  Fences() {
    all().clear();
    Kokkos::Tools::Experimental::set_begin_fence_callback([](const char* name, std::uint32_t instance, std::uint64_t*) {
      all().push_back({name, instance});
    });
  }
  Fences(const Fences&) = delete;
  Fences& operator=(const Fences&) = delete;
  ~Fences() { Kokkos::Tools::Experimental::set_begin_fence_callback(nullptr); }

  static std::vector<Fence>& all() {
    static std::vector<Fence> fences;
    return fences;
  }
};

/// Of what `f` does: `f` has nothing else fenced than `execution`, under names of the library, `expected` among them.
template <class F>
void check_fences(const Host& execution, const std::vector<std::string>& expected, F&& f) {
  {
    const Fences listen;
    f();
  }
  const auto& fences = Fences::all();
  for (const Fence& fence : fences) {
    CHECK_MESSAGE(fence.name.starts_with("kerkis::"), fence.name);
    CHECK_MESSAGE(fence.instance == Kokkos::Tools::Experimental::device_id(execution), fence.name);
  }
  for (const std::string& name : expected) CHECK_MESSAGE(std::ranges::count(fences, name, &Fence::name) > 0, name);
}

/// Of some operations on Views that go as they lie, or (`packs`) through buffers.
template <class View>
void check_all(const Communicator& world, const Host& execution, const View& out, const View& in, bool packs) {
  const int next = (world.rank() + 1) % world.size(), previous = (world.rank() + world.size() - 1) % world.size();
  const auto names = [&](std::vector<std::string> all) {
    if (packs) all.insert(all.end(), {"kerkis::pack", "kerkis::unpack"});
    return all;
  };
  check_fences(execution, names({"kerkis::all_reduce"}), [&] { kerkis::all_reduce(execution, world, in).wait(); });
  check_fences(execution, names({"kerkis::all_reduce"}),
               [&] { kerkis::all_reduce(execution, world, out, in, {.reproducible = true}).wait(); });
  check_fences(execution, {"kerkis::broadcast"}, [&] { kerkis::broadcast(execution, world, in).wait(); });
  check_fences(execution, names({"kerkis::shift"}), [&] { kerkis::shift(execution, world, out, in).wait(); });
  check_fences(execution, {"kerkis::pack", "kerkis::shift"}, [&] { kerkis::shift(execution, world, in).wait(); });
  check_fences(execution, names({"kerkis::send", "kerkis::receive"}), [&] {
    auto comes = kerkis::receive(execution, world, in, {.from = previous});
    auto goes = kerkis::send(execution, world, out, {.to = next});
    kerkis::wait_all(comes, goes);
  });
  check_fences(execution, names({"kerkis::send", "kerkis::receive", "kerkis::all_reduce"}), [&] {
    auto receive = kerkis::persistent_receive(execution, world, in, {.from = previous});
    auto send = kerkis::persistent_send(execution, world, out, {.to = next});
    auto sum = kerkis::persistent_all_reduce(execution, world, in);
    for (int round = 0; round < 2; ++round) {
      auto comes = receive.start(), goes = send.start();
      kerkis::wait_all(comes, goes);
      sum.start().wait();
    }
  });
}

TEST_CASE("the fences of operations have the library's names and are of the instance that was given") {
  const Communicator world(MPI_COMM_WORLD), pieces(MPI_COMM_WORLD, "pieces", {.largest_count = 64}),
      staged(MPI_COMM_WORLD, "staged", {.stage = true});
  const Host execution = Kokkos::Experimental::partition_space(Host(), 1)[0];
  const views::Of<float**, Kokkos::LayoutRight> out("out", 90'000, 2), in("in", 90'000, 2);
  const auto row = [](const auto& view) { return Kokkos::subview(view, 7, Kokkos::ALL); };
  const auto column = [](const auto& view, int rows) { return Kokkos::subview(view, Kokkos::make_pair(0, rows), 1); };
  for (const Communicator* const communicator : {&world, &pieces, &staged}) {
    check_all(*communicator, execution, row(out), row(in), communicator == &staged);
    check_all(*communicator, execution, column(out, 100), column(in, 100), true);
    if (communicator != &pieces)  // packed by all cores
      check_all(*communicator, execution, column(out, 90'000), column(in, 90'000), true);
  }
}

}  // namespace
