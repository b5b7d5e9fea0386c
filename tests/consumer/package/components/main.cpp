// SPDX-License-Identifier: Apache-2.0
#include <kerkis/testing/main.hpp>

#include <kerkis/asio/bridge.hpp>
#include <kerkis/comm/all_reduce.hpp>

TEST_CASE("an all_reduce, awaited on an io_context") {
  const kerkis::Communicator world(MPI_COMM_WORLD);
  const Kokkos::View<int*, Kokkos::HostSpace> values("values", 3);
  Kokkos::deep_copy(values, 2);
  boost::asio::io_context context;
  kerkis::asio::Bridge bridge(context);
  bool right = false;
  bridge.async_wait(kerkis::all_reduce(Kokkos::DefaultHostExecutionSpace{}, world, values),
                    [&](const std::exception_ptr& error) { right = !error && values(2) == 2 * world.size(); });
  context.run();
  CHECK(right);
}
