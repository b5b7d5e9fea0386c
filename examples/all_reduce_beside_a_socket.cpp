// SPDX-License-Identifier: Apache-2.0
// One thread does three things at once: it sums over all ranks, streams bytes through TCP, and looks at the clock.
//
//     mpiexec -n 2 all_reduce_beside_a_socket

#include <boost/asio.hpp>
#include <chrono>
#include <cstdio>
#include <kerkis/asio/bridge.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/environment.hpp>
#include <vector>

namespace kk = kerkis;
namespace net = boost::asio;
using net::ip::tcp;

int main(int argc, char** argv) {
  return kk::run(argc, argv, [] {
    const kk::Communicator world(MPI_COMM_WORLD);
    net::io_context io;
    kk::asio::Bridge bridge(io);
    tcp::acceptor acceptor(io, {net::ip::address_v4::loopback(), 0});
    tcp::socket near(io), far(io);
    near.connect(acceptor.local_endpoint());
    acceptor.accept(far);
    int sums = 0;
    std::size_t bytes = 0;

    const auto all_reduces = [&]() -> net::awaitable<void> {
      const Kokkos::View<double*> values("values", 1 << 18);
      for (; sums < 200; ++sums) {
        Kokkos::deep_copy(values, world.rank());
        co_await bridge.async_wait(kk::all_reduce(Kokkos::DefaultExecutionSpace(), world, values));
      }
    };
    const auto sender = [&]() -> net::awaitable<void> {
      const std::vector<char> block(1 << 20);
      for (int i = 0; i < 256; ++i) co_await net::async_write(near, net::buffer(block), net::use_awaitable);
      near.shutdown(tcp::socket::shutdown_send);
    };
    const auto receiver = [&]() -> net::awaitable<void> {
      std::vector<char> block(1 << 20);
      boost::system::error_code end;
      while (!end)
        bytes += co_await far.async_read_some(net::buffer(block), net::redirect_error(net::use_awaitable, end));
    };
    const auto clock = [&]() -> net::awaitable<void> {
      net::steady_timer timer(io);
      while (sums < 200) {
        timer.expires_after(std::chrono::milliseconds(50));
        co_await timer.async_wait(net::use_awaitable);
        if (world.rank() == 0) std::printf("%4d sums, %4zu MiB\n", sums, bytes >> 20);
      }
    };

    std::exception_ptr failure;
    const auto note = [&](std::exception_ptr error) {
      if (!error) return;
      failure = error;
      io.stop();
    };
    net::co_spawn(io, all_reduces, note);
    net::co_spawn(io, sender, note);
    net::co_spawn(io, receiver, note);
    net::co_spawn(io, clock, note);
    io.run();  // until all four are done
    if (failure) std::rethrow_exception(failure);
  });
}
