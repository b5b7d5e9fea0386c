// SPDX-License-Identifier: Apache-2.0
// Several threads in run(), with MPI_THREAD_SERIALIZED: this program has a main function of its own.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include <kerkis/testing/any_rank.hpp>
#include <kerkis/testing/watchdog.hpp>

#include "support.hpp"

using namespace std::chrono_literals;

namespace {

using namespace asio_test;

/// Runs an io_context on threads until it has no more work.
class Threads {
 public:
  Threads(net::io_context& io, int count) {
    for (int i = 0; i < count; ++i) threads_.emplace_back([&io] { io.run(); });
  }
  ~Threads() { join(); }
  void join() {
    for (auto& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  std::vector<std::thread> threads_;
};

/// Reports a coroutine that ends by an exception.
struct Count {
  void operator()(const std::exception_ptr& error) const {
    const std::string text = outcome(error);
    if (text.empty())
      ++done;
    else
      std::fprintf(stderr, "%s\n", text.c_str());
  }
  std::atomic<int>& done;
};

TEST_CASE("coroutines on many threads: hand-offs by async_start, collectives in the strand, timers, cancellations") {
  using namespace net::experimental::awaitable_operators;
  const Communicator world(MPI_COMM_WORLD);
  const int ranks = world.size(), left = (world.rank() + ranks - 1) % ranks, right = (world.rank() + 1) % ranks;
  net::io_context io;
  Bridge bridge(io);
  std::atomic<int> done = 0, good = 0;
  const auto pass = [&](int tag) -> net::awaitable<void> {
    for (int i = 0; i < 30; ++i) {
      const View in = filled(-1), out = filled(1000 * tag + i);
      if (ranks > 1)
        co_await (bridge.async_start([&] { return kerkis::receive(Host(), world, in, {.from = left, .tag = tag}); },
                                     net::use_awaitable) &&
                  bridge.async_start([&] { return kerkis::send(Host(), world, out, {.to = right, .tag = tag}); },
                                     net::use_awaitable));
      good += ranks == 1 || all_are(in, 1000 * tag + i) ? 1 : 0;
    }
  };
  const auto reduce = [&]() -> net::awaitable<void> {
    for (int i = 0; i < 30; ++i) {
      const View view = filled(i);
      co_await bridge.async_wait(kerkis::all_reduce(Host(), world, view));
      good += all_are(view, i * ranks) ? 1 : 0;
    }
  };
  const auto give_up = [&](int tag) -> net::awaitable<void> {
    net::steady_timer timer(co_await net::this_coro::executor);
    for (int i = 0; i < 10 && ranks > 1; ++i) {
      const View in = filled(-1);
      timer.expires_after(1ms);
      const auto first =
          co_await (bridge.async_start([&] { return kerkis::receive(Host(), world, in, {.from = left, .tag = tag}); },
                                       net::use_awaitable) ||
                    timer.async_wait(net::use_awaitable));
      good += first.index() == 1 ? 1 : 0;
    }
  };
  for (int tag = 1; tag <= 6; ++tag) net::co_spawn(net::make_strand(io), pass(tag), Count{done});
  for (int tag = 101; tag <= 103; ++tag) net::co_spawn(net::make_strand(io), give_up(tag), Count{done});
  net::co_spawn(bridge.get_executor(), reduce(), Count{done});
  Threads(io, 4).join();
  CHECK(done == 10);
  CHECK(good == 6 * 30 + 30 + (ranks > 1 ? 3 * 10 : 0));
}

TEST_CASE("futures on a thread that does not run the io_context") {
  const Communicator world(MPI_COMM_WORLD);
  net::io_context io;
  Bridge bridge(io);
  std::optional<net::executor_work_guard<net::io_context::executor_type>> work(net::make_work_guard(io));
  Threads threads(io, 3);
  for (int i = 0; i < 50; ++i) {
    const View view = filled(i);
    bridge.async_start([&] { return kerkis::all_reduce(Host(), world, view); }, net::use_future).get();
    CHECK(all_are(view, i * world.size()));
  }
  work.reset();
}

TEST_CASE("handlers on a thread pool run beside the bridge") {
  const Communicator world(MPI_COMM_WORLD);
  net::io_context io;
  net::thread_pool pool(2);
  Bridge bridge(io);
  std::atomic<int> done = 0, inside = 0;
  std::vector<View> views;
  for (int i = 0; i < 100; ++i) views.push_back(filled(i));
  for (int i = 0; i < 100; ++i)
    bridge.async_start([&, i] { return kerkis::all_reduce(Host(), world, views[static_cast<std::size_t>(i)]); },
                       net::bind_executor(pool, [&, i](const std::exception_ptr& error) {
                         if (bridge.get_executor().running_in_this_thread()) ++inside;
                         if (!error && all_are(views[static_cast<std::size_t>(i)], i * world.size())) ++done;
                       }));
  Threads(io, 2).join();
  pool.join();
  CHECK(done == 100);
  CHECK(inside == 0);
}

TEST_CASE("the bridge ends while threads run and operations are pending") {
  const Communicator world(MPI_COMM_WORLD);
  const int ranks = world.size();
  for (int round = 0; round < 5; ++round) {
    net::io_context io;
    std::atomic<int> aborted = 0;
    {
      Bridge bridge(io);
      for (int i = 0; i < 20 && ranks > 1; ++i)
        bridge.async_start(
            [&] { return kerkis::receive(Host(), world, filled(0), {.from = (world.rank() + 1) % ranks, .tag = 7}); },
            [&](const std::exception_ptr& error) { aborted += outcome(error) == "operation_aborted" ? 1 : 0; });
      Threads threads(io, 3);
      std::this_thread::sleep_for(5ms);
      bridge.cancel();
    }
    CHECK(aborted == (ranks > 1 ? 20 : 0));
  }
}

}  // namespace

int main(int argc, char** argv) {
  int level = MPI_THREAD_SINGLE, rank = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (level < MPI_THREAD_SERIALIZED) {
    std::fprintf(stderr, "this MPI has no MPI_THREAD_SERIALIZED\n");
    return 1;
  }
  kerkis::testing::Watchdog watchdog(rank);
  watchdog.watch("tests/asio/threads", __FILE__, __LINE__);
  Kokkos::initialize(Kokkos::InitializationSettings().set_num_threads(1).set_disable_warnings(true));
  doctest::Context context(argc, argv);
  const bool failed = kerkis::testing::any_rank(MPI_COMM_WORLD, context.run() != 0);
  Kokkos::finalize();
  MPI_Finalize();
  return failed ? 1 : 0;
}
