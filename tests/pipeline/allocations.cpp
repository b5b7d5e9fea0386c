// SPDX-License-Identifier: Apache-2.0
// A pass allocates nothing after the first of its kind, whatever the schedule, with equal and with changing shapes.

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <vector>

#include <kerkis/schedule/registry.hpp>

#include "waves.hpp"

namespace {
bool counting = false;
int allocations = 0;

void* allocate(std::size_t bytes) {
  if (counting) ++allocations;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void count_view(const Kokkos_Profiling_SpaceHandle, const char*, const void*, std::uint64_t) {
  if (counting) ++allocations;
}
}  // namespace

void* operator new(std::size_t bytes) { return allocate(bytes); }
void* operator new[](std::size_t bytes) { return allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

using namespace waves;

TEST_CASE("a pass allocates nothing") {
  const kk::Communicator world(MPI_COMM_WORLD);
  Kokkos::Tools::Experimental::set_allocate_data_callback(count_view);
  {
    counting = true;
    allocations = 0;
    const View seen("seen", 1, 1);
    const std::vector<int> also(3);
    counting = false;
    CHECK(allocations >= 2);  // the counters count
  }
  for (const std::string_view name : kk::schedule::Known::names)
    for (const bool changing : {false, true}) {
      INFO(name, changing ? ", changing shapes" : ", equal shapes");
      const kk::schedule::Table table = kk::schedule::make_table(name, {world.size(), 8, 1});
      Stages<Wave> stages(table, world.rank());
      kk::ParameterStore<double, Space> store(stages, 0);
      kk::PipelineExecutor<Wave> executor(world, table, stages.pointers(), 4);
      kk::Workspace<Space> workspace;
      std::vector<Samples> samples = make_samples(8);
      if (!changing)
        for (Samples& part : samples) part.count = 4;
      allocations = 0;
      for (int step = 0; step < 24; ++step) {
        if (changing) std::rotate(samples.begin(), samples.begin() + 1, samples.end());
        counting = step >= 8;
        executor.train(context(world, workspace), samples, [](int, const auto&) {});
        executor.evaluate(context(world, workspace, kk::Mode::evaluation), samples);
        counting = false;
      }
      CHECK(allocations == 0);
    }
  Kokkos::Tools::Experimental::set_allocate_data_callback(nullptr);
}
