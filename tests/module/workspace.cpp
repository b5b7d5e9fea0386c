// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>
#include <kerkis/module/workspace.hpp>

#include <cstdint>

namespace {

using Host = Kokkos::DefaultHostExecutionSpace;
using Workspace = kerkis::Workspace<Host>;

int allocations = 0;
void count_allocation(Kokkos_Profiling_SpaceHandle, const char*, const void*, std::uint64_t) { ++allocations; }

bool aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 64 == 0; }

/// What a call of nested layers takes: small and large blocks, some in an inner scope. Checks that none touches
/// another.
void use(Workspace& workspace) {
  auto outer = workspace.scope();
  const auto a = outer.take<float>(3, 5);
  const auto none = outer.take<float>(0, 7);
  const auto b = outer.take<double>(1, 1);
  CHECK(none.size() == 0);
  Kokkos::deep_copy(a, 1);
  Kokkos::deep_copy(b, 2);
  const void* inner_place = nullptr;
  for (int round = 0; round < 2; ++round) {
    auto inner = workspace.scope();
    const auto c = inner.take<float>(1000, 2000);  // larger than a block
    const auto d = inner.take<std::int32_t>(7, 7);
    Kokkos::deep_copy(c, 3);
    Kokkos::deep_copy(d, 4);
    CHECK(c(999, 1999) == 3);
    CHECK((aligned(a.data()) && aligned(b.data()) && aligned(c.data()) && aligned(d.data())));
    if (round == 1) CHECK(inner_place == c.data());  // the memory of the first inner scope again
    inner_place = c.data();
  }
  const auto e = outer.take<float>(4, 4);
  Kokkos::deep_copy(e, 5);
  CHECK(a(2, 4) == 1);
  CHECK(b(0, 0) == 2);
}

TEST_CASE("scopes nest, blocks are apart, and a second round allocates nothing") {
  Workspace workspace;
  Kokkos::Tools::Experimental::set_allocate_data_callback(&count_allocation);
  use(workspace);
  CHECK(allocations > 0);
  allocations = 0;
  use(workspace);
  CHECK(allocations == 0);
  Kokkos::Tools::Experimental::set_allocate_data_callback(nullptr);
}

}  // namespace
