// SPDX-License-Identifier: Apache-2.0
// Checking mode: a View that rank 0 writes while an operation reads it is an error on every rank, whatever the way it
// takes through MPI.
#include <doctest/doctest.h>
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/all_to_all.hpp>
#include <kerkis/comm/exchange.hpp>
#include <kerkis/comm/gather.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/reduce.hpp>
#include <kerkis/comm/reduce_scatter.hpp>
#include <kerkis/comm/scan.hpp>
#include <kerkis/comm/scatter.hpp>

#include <chrono>
#include <string>
#include <vector>

#include "thrown.hpp"

using namespace std::chrono_literals;

namespace {

using kerkis::CommError;
using kerkis::Communicator;
using kerkis::Request;
using Host = Kokkos::DefaultHostExecutionSpace;
template <class T>
using View = Kokkos::View<T*, Kokkos::HostSpace>;
template <class T>
using Unmanaged = Kokkos::View<T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;

constexpr std::size_t each = 20;  // elements of a block

/// `start(world, send, receive)` begins the operation on every rank; both Views have a block per rank.
template <class T, class Start>
void check_caught(const char* operation, std::size_t largest_count, const Start& start) {
  CAPTURE(operation);
  CAPTURE(largest_count);
  const Communicator world(MPI_COMM_WORLD, "world",
                           {.wait = {.deadline = 20s}, .largest_count = largest_count, .check = true});
  const auto ranks = static_cast<std::size_t>(world.size());
  const View<T> send("send", each * ranks), receive("receive", each * ranks);
  const std::string text = thrown<CommError>([&] {
    Request request = start(world, send, receive);
    if (world.rank() == 0) send(1) = T(7);
    request.wait();
    for (;;) world.poll();  // the others learn it
  });
  CHECK_MESSAGE(contains(text, kerkis::message(operation, " #1 of ")), text);
  CHECK_MESSAGE(contains(text, "its View was written before the operation was complete"), text);
}

template <class T>
Unmanaged<T> part(const View<T>& view, std::size_t count) {
  return Unmanaged<T>(view.data(), count);
}

}  // namespace

TEST_CASE("a View that is written while it is sent, of any kind and in any way") {
  std::vector<std::size_t> counts;  // of the ranks' blocks
  int ranks = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (int rank = 0; rank < ranks; ++rank) counts.push_back(rank % 2 == 0 ? each - 3 : each + 1);
  std::size_t total = 0;
  for (const auto count : counts) total += count;
  const auto mine = [&](const Communicator& world) { return counts[static_cast<std::size_t>(world.rank())]; };
  for (const std::size_t largest_count : {std::size_t{1} << 20, std::size_t{7}}) {
    using D = const View<double>&;
    check_caught<double>("all_gather", largest_count, [&](const Communicator& world, D send, D receive) {
      return kerkis::all_gather(Host(), world, part(send, each), receive);
    });
    check_caught<double>("all_gather", largest_count, [&](const Communicator& world, D send, D receive) {
      return kerkis::all_gather(Host(), world, part(send, mine(world)), part(receive, total), {.counts = counts});
    });
    check_caught<double>("gather", largest_count, [&](const Communicator& world, D send, D receive) {
      return kerkis::gather(Host(), world, part(send, mine(world)), part(receive, total),
                            {.root = 1, .counts = counts});
    });
    check_caught<double>("scatter", largest_count, [&](const Communicator& world, D send, D receive) {
      return kerkis::scatter(Host(), world, part(send, total), part(receive, mine(world)), {.counts = counts});
    });
    check_caught<double>("all_to_all", largest_count, [&](const Communicator& world, D send, D receive) {
      return kerkis::all_to_all(Host(), world, send, receive);
    });
    check_caught<double>("all_to_all", largest_count, [&](const Communicator& world, D send, D receive) {
      const std::vector<std::size_t> block(counts.size(), each);
      return kerkis::all_to_all(Host(), world, send, receive, {.send_counts = block, .receive_counts = block});
    });
    check_caught<double>("all_reduce", largest_count, [&](const Communicator& world, D send, D receive) {
      return kerkis::all_reduce(Host(), world, send, receive);
    });
    check_caught<double>("reduce", largest_count, [&](const Communicator& world, D send, D receive) {
      return kerkis::reduce(Host(), world, part(send, each), part(receive, each), {.root = 1});
    });
    check_caught<double>("reduce_scatter", largest_count, [&](const Communicator& world, D send, D receive) {
      return kerkis::reduce_scatter(Host(), world, part(send, total), part(receive, mine(world)), {.counts = counts});
    });
    check_caught<float>("scan", largest_count,
                        [&](const Communicator& world, const View<float>& send, const View<float>& receive) {
                          return kerkis::scan(Host(), world, part(send, each), part(receive, each));
                        });
    check_caught<double>("exchange", largest_count, [&](const Communicator& world, D send, D receive) {
      const int size = world.size();
      return kerkis::exchange(Host(), world, part(send, each), receive,
                              {.to = (world.rank() + 1) % size, .from = (world.rank() + size - 1) % size});
    });
    check_caught<double>("send", largest_count, [&](const Communicator& world, D send, D receive) {
      if (world.rank() == 0) return kerkis::send(Host(), world, part(send, each), {.to = 1});
      if (world.rank() == 1) return kerkis::receive(Host(), world, receive, {.from = 0});
      return Request();
    });
  }
  // In the order of shards, more than what goes in one step.
  constexpr std::size_t many = std::size_t{1} << 20;
  check_caught<double>("all_reduce", many,
                       [&](const Communicator& world, const View<double>& send, const View<double>& receive) {
                         return kerkis::all_reduce(Host(), world, send, receive, {.reproducible = true});
                       });
  using Half = kerkis::bfloat16;
  check_caught<Half>("all_reduce", many,
                     [&](const Communicator& world, const View<Half>& send, const View<Half>& receive) {
                       return kerkis::all_reduce(Host(), world, send, receive);
                     });
}
