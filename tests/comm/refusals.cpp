// SPDX-License-Identifier: Apache-2.0
// Wrong input is refused with the numbers in the message, before anything is sent: the communicator stays usable.
#include <doctest/doctest.h>
#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/all_to_all.hpp>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/broadcast.hpp>
#include <kerkis/comm/exclusive_scan.hpp>
#include <kerkis/comm/gather.hpp>
#include <kerkis/comm/persistent_collective.hpp>
#include <kerkis/comm/persistent_hand_off.hpp>
#include <kerkis/comm/reduce.hpp>
#include <kerkis/comm/reduce_scatter.hpp>
#include <kerkis/comm/scan.hpp>
#include <kerkis/comm/scatter.hpp>
#include <kerkis/comm/shift.hpp>

#include <chrono>
#include <string>
#include <vector>

#include "thrown.hpp"

using namespace std::chrono_literals;

namespace {

using kerkis::Communicator;
using kerkis::InputError;
using kerkis::Reduction;
using Host = Kokkos::DefaultHostExecutionSpace;
using View = Kokkos::View<float*, Kokkos::HostSpace>;

/// Calls `f`, an operation, which must throw InputError with its call site and these words.
template <class F, class... Words>
void refused(F&& f, const Words&... words) {
  CHECK(refusal(f) == kerkis::message(words...));
}
/// The same for what makes a communicator.
template <class F, class... Words>
void not_made(F&& f, const Words&... words) {
  refused(f, "Communicator: ", words...);
}

TEST_CASE("sizes that do not match") {
  const Host host;
  const Communicator world(MPI_COMM_WORLD);
  const auto ranks = static_cast<std::size_t>(world.size());
  const int rank = world.rank();
  const View three("three", 3), four("four", 4), wrong("wrong", 3 * ranks + 1), again("again", 3 * ranks + 1);
  const std::string over = kerkis::message(" over ", ranks, " ranks: ");
  const std::string whole = kerkis::message(over, "the blocks have ", 3 * ranks,
                                            " elements together, the View of all of them ", 3 * ranks + 1);

  refused([&] { kerkis::all_reduce(host, world, three, four); }, "all_reduce: 3 elements do not fill 4");
  refused([&] { kerkis::scan(host, world, four, three); }, "scan: 4 elements do not fill 3");
  using Matrix = Kokkos::View<float**, Kokkos::HostSpace>;
  refused([&] { kerkis::all_reduce(host, world, Matrix("flat", 2, 3), Matrix("tall", 3, 2)); },
          "all_reduce: extent 0 is 2 of the View that is read, but 3 of the one that is written");
  refused([&] { kerkis::all_gather(host, world, three, wrong); }, "all_gather", whole);
  refused([&] { kerkis::reduce_scatter(host, world, wrong, three); }, "reduce_scatter", whole);
  if (ranks > 1) {
    const std::string unequal = kerkis::message(over, 3 * ranks + 1, " elements do not make equal blocks");
    refused([&] { kerkis::all_gather(host, world, wrong); }, "all_gather", unequal);
    refused([&] { kerkis::reduce_scatter(host, world, wrong); }, "reduce_scatter", unequal);
    refused([&] { kerkis::all_to_all(host, world, wrong); }, "all_to_all", unequal);
    refused([&] { kerkis::all_to_all(host, world, wrong, again); }, "all_to_all", unequal);
  }

  // What the root alone can see.
  if (rank == 0) {
    refused([&] { kerkis::reduce(host, world, three, four); }, "reduce: 3 elements do not fill 4");
    refused([&] { kerkis::gather(host, world, three, wrong); }, "gather", whole);
    refused([&] { kerkis::scatter(host, world, wrong, three); }, "scatter", whole);
  }

  std::vector<std::size_t> counts(ranks, 3), many(ranks + 1, 3);
  counts.back() = 4;
  const std::string numbers = kerkis::message(over, "counts for ", ranks + 1);
  const std::size_t mine = counts[static_cast<std::size_t>(rank)];
  const View other("other", mine + 2);
  const std::string block =
      kerkis::message(over, "the block of rank ", rank, " has ", mine, " elements, its View ", mine + 2);
  refused([&] { kerkis::all_gather(host, world, three, wrong, {.counts = many}); }, "all_gather", numbers);
  refused([&] { kerkis::all_gather(host, world, other, wrong, {.counts = counts}); }, "all_gather", block);
  refused([&] { kerkis::gather(host, world, other, wrong, {.counts = counts}); }, "gather", block);
  refused([&] { kerkis::scatter(host, world, wrong, other, {.counts = counts}); }, "scatter", block);
  refused([&] { kerkis::reduce_scatter(host, world, wrong, other, {.counts = counts}); }, "reduce_scatter", block);
  refused([&] { kerkis::all_to_all(host, world, wrong, again, {.send_counts = counts}); }, "all_to_all: ", ranks,
          " send_counts, 0 receive_counts");
  refused([&] { kerkis::all_to_all(host, world, wrong, {.send_counts = counts}); },
          "all_to_all in place: send_counts and receive_counts differ");
  if (ranks > 1) {
    counts.assign(ranks, ~std::size_t{0} / 2 + 1);  // two of them make 0
    refused([&] { kerkis::all_gather(host, world, three, wrong, {.counts = counts}); }, "all_gather", over,
            "counts whose sum overflows");
  }
  CHECK_NOTHROW(kerkis::all_reduce(host, world, three).wait());
}

TEST_CASE("shards that do not match") {
  const Host host;
  const Communicator world(MPI_COMM_WORLD);
  const auto ranks = static_cast<std::size_t>(world.size());
  const View three("three", 3), wrong("wrong", 7);
  refused([&] { kerkis::all_reduce(host, world, wrong, three, {.shards = 2 * ranks}); }, "all_reduce of ", 2 * ranks,
          " shards over ", ranks, " ranks: rank ", world.rank(), " has 2 of them, of 3 elements each, its View 7");
  refused([&] { kerkis::all_reduce(host, world, three, {.shards = ranks + 1}); }, "all_reduce in place over ", ranks,
          " ranks: ", ranks + 1, " shards, not one of each rank");
  CHECK_NOTHROW(kerkis::all_reduce(host, world, three).wait());
}

TEST_CASE("reductions that an element type does not have") {
  const Host host;
  const Communicator world(MPI_COMM_WORLD);
  for (const bool reproducible : {false, true}) {
    const Kokkos::View<bool*, Kokkos::HostSpace> flags("flags", 2);
    const Kokkos::View<Kokkos::complex<double>*, Kokkos::HostSpace> waves("waves", 2);
    const View view("view", 2);
    const auto words = [&](const char* reduction, const char* elements) {
      return kerkis::message("all_reduce: there is no ", reduction, " of ", elements);
    };
    refused([&] { kerkis::all_reduce(host, world, flags, {.reproducible = reproducible}); }, words("sum", "bool"));
    refused(
        [&] {
          kerkis::all_reduce(host, world, waves, {.operation = Reduction::minimum, .reproducible = reproducible});
        },
        words("minimum", "complex numbers"));
    refused(
        [&] {
          kerkis::all_reduce(host, world, view, {.operation = Reduction::bitwise_or, .reproducible = reproducible});
        },
        words("bitwise or", "floating-point numbers"));
    CHECK_NOTHROW(kerkis::all_reduce(host, world, view).wait());
  }
}

TEST_CASE("roots that are no ranks") {
  const Host host;
  const Communicator world(MPI_COMM_WORLD, "grid");
  const View view("view", 2);
  for (const int nobody : {-1, world.size()}) {
    const std::string words = kerkis::message(": root ", nobody, " is none of the ", world.size(), " ranks");
    refused([&] { kerkis::broadcast(host, world, view, {.root = nobody}); }, "broadcast", words);
    refused([&] { kerkis::reduce(host, world, view, {.root = nobody}); }, "reduce", words);
    refused([&] { kerkis::gather(host, world, view, {.root = nobody}); }, "gather", words);
    refused([&] { kerkis::scatter(host, world, view, {.root = nobody}); }, "scatter", words);
  }
  CHECK_NOTHROW(kerkis::all_reduce(host, world, view).wait());
}

TEST_CASE("two Views that share memory") {
  const Host host;
  const Communicator world(MPI_COMM_WORLD);
  const auto ranks = static_cast<std::size_t>(world.size());
  const View all("all", 4 * ranks);
  const auto part = [&](std::size_t begin, std::size_t end) {
    return Kokkos::subview(all, Kokkos::pair<std::size_t, std::size_t>(begin, end));
  };
  const auto shared = [](std::size_t sent, std::size_t received, std::size_t both) {
    return kerkis::message(": the two Views have memory in common: ", 4 * sent, " bytes go out, ", 4 * received,
                           " come in, and ", 4 * both, " bytes are of both");
  };
  const std::size_t whole_count = 4 * ranks;
  refused([&] { kerkis::all_reduce(host, world, all, all); }, "all_reduce",
          shared(whole_count, whole_count, whole_count));
  refused([&] { kerkis::all_reduce(host, world, part(0, 3), part(1, 4), {.reproducible = true}); }, "all_reduce",
          shared(3, 3, 2));
  refused([&] { kerkis::scan(host, world, part(1, 4), part(0, 3)); }, "scan", shared(3, 3, 2));
  refused([&] { kerkis::exclusive_scan(host, world, part(1, 4), part(0, 3)); }, "exclusive_scan", shared(3, 3, 2));
  refused([&] { kerkis::all_gather(host, world, part(0, 4), all); }, "all_gather", shared(4, whole_count, 4));
  refused([&] { kerkis::reduce_scatter(host, world, all, part(0, 4)); }, "reduce_scatter", shared(whole_count, 4, 4));
  refused([&] { kerkis::all_to_all(host, world, all, all); }, "all_to_all",
          shared(whole_count, whole_count, whole_count));
  refused([&] { kerkis::shift(host, world, all, all); }, "shift", shared(whole_count, whole_count, whole_count));
  // What the root alone can see.
  if (world.rank() == world.size() - 1) {
    const int root = world.rank();
    const View whole = part(0, 4), mine = part(0, 4);
    for (const Reduction operation : {Reduction::sum, Reduction::minimum})
      for (const bool reproducible : {false, true})
        refused(
            [&] {
              kerkis::reduce(host, world, whole, mine,
                             {.root = root, .operation = operation, .reproducible = reproducible});
            },
            "reduce", shared(4, 4, 4));
    refused([&] { kerkis::gather(host, world, part(0, 4), all, {.root = root}); }, "gather", shared(4, whole_count, 4));
    refused([&] { kerkis::scatter(host, world, all, part(0, 4), {.root = root}); }, "scatter",
            shared(whole_count, 4, 4));
  }
  kerkis::all_reduce(host, world, part(0, 2), part(2, 4)).wait();  // neighbours do not
  if (ranks == 1) return;
  // Elsewhere one of the two is ignored, whatever it is.
  const View others("others", 4 * ranks);
  const bool root = world.rank() == 0;
  kerkis::reduce(host, world, all, root ? others : all).wait();
  kerkis::gather(host, world, View(part(0, 4)), root ? others : all).wait();
  kerkis::scatter(host, world, root ? others : all, View(part(0, 4))).wait();
}

TEST_CASE("communicators that can't be, and a peer that is not given") {
  not_made([] { Communicator{MPI_COMM_NULL}; }, "MPI_COMM_NULL, of which this rank is no member");
  for (const std::size_t wrong : {std::size_t{0}, std::size_t{1} << 31, ~std::size_t{0}})
    not_made([&] { Communicator(MPI_COMM_WORLD, "world", {.largest_count = wrong}); }, "largest_count is ", wrong,
             ", none of 1 to 2147483647");
  const Host host;
  const Communicator world(MPI_COMM_WORLD);
  const View three("three", 3);
  refused([&] { kerkis::send(host, world, three, {.tag = 1}); }, "send: the other rank is not given");
  refused([&] { kerkis::receive(host, world, three, {}); }, "receive: the other rank is not given");
  if (world.size() == 1) return;
  const auto differ = [](const char* option, std::uint64_t of_first, std::uint64_t of_second) {
    return kerkis::message("options are equal on all ranks, but ", option, " is ", of_first, " on rank 0 and ",
                           of_second, " on rank 1");
  };
  const bool second = world.rank() == 1;
  not_made([&] { Communicator(MPI_COMM_WORLD, "world", {.stage = second}); }, differ("stage", 0, 1));
  not_made([&] { Communicator(MPI_COMM_WORLD, "world", {.largest_count = second ? 5U : 7U}); },
           differ("largest_count", 7, 5));
  not_made([&] { Communicator(MPI_COMM_WORLD, "world", {.check = second}); }, differ("check", 0, 1));
  MPI_Comm part = MPI_COMM_NULL, between = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, world.rank() == 0 ? 0 : 1, 0, &part);
  MPI_Intercomm_create(part, 0, MPI_COMM_WORLD, world.rank() == 0 ? 1 : 0, 0, &between);
  not_made([&] { Communicator{between}; }, "it takes no intercommunicator; MPI_Intercomm_merge makes one group of two");
  MPI_Comm_free(&between);
  MPI_Comm_free(&part);
}

TEST_CASE("times that mean nothing, and never") {
  using kerkis::WaitPolicy;
  const auto wrong = [](const WaitPolicy& wait, const char* words) {
    not_made([&] { Communicator(MPI_COMM_WORLD, "world", {.wait = wait}); }, "its wait's ", words);
  };
  wrong({.spins = -2}, "spins are -2, less than -1");
  wrong({.sleep_after = -1ms}, "sleep_after is -1 ms, less than 0");
  wrong({.sleep = 0us}, "sleep is 0 µs, less than 1");
  wrong({.first_report = 0ms}, "first_report is 0 ms, less than 1");
  wrong({.first_report = -7ms}, "first_report is -7 ms, less than 1");
  wrong({.deadline = 0ms}, "deadline is 0 ms, less than 1");
  wrong({.deadline = -1s}, "deadline is -1000 ms, less than 1");

  const Host host;
  constexpr auto never = std::chrono::milliseconds::max();
  const Communicator world(MPI_COMM_WORLD, "world",
                           {.wait = {.spins = 0, .sleep_after = never, .first_report = never, .deadline = never}});
  const View all("all", world.size());
  kerkis::all_reduce(host, world, all).wait();
  kerkis::all_reduce(host, world, all, {.deadline = never}).wait();
  // Over one rank too, where there is nothing to wait for.
  {
    const View three("three", 3), other("other", 3);
    const Communicator alone = world.size() == 1 ? world : Communicator();
    const std::string below = ": the deadline is -1 ms, less than 0";
    const std::size_t one[] = {3};
    refused([&] { kerkis::barrier(alone, {.deadline = -1ms}); }, "barrier", below);
    refused([&] { kerkis::all_reduce(host, alone, three, {.deadline = -1ms}); }, "all_reduce", below);
    refused([&] { kerkis::all_reduce(host, alone, three, other, {.deadline = -1ms}); }, "all_reduce", below);
    refused([&] { kerkis::all_reduce(host, alone, three, {.reproducible = true, .deadline = -1ms}); }, "all_reduce",
            below);
    refused([&] { kerkis::reduce(host, alone, three, {.deadline = -1ms}); }, "reduce", below);
    refused([&] { kerkis::reduce_scatter(host, alone, three, other, {.deadline = -1ms}); }, "reduce_scatter", below);
    refused([&] { kerkis::all_gather(host, alone, three, other, {.deadline = -1ms}); }, "all_gather", below);
    refused([&] { kerkis::all_gather(host, alone, three, {.counts = one, .deadline = -1ms}); }, "all_gather", below);
    refused([&] { kerkis::gather(host, alone, three, other, {.deadline = -1ms}); }, "gather", below);
    refused([&] { kerkis::scatter(host, alone, three, other, {.deadline = -1ms}); }, "scatter", below);
    refused([&] { kerkis::all_to_all(host, alone, three, {.deadline = -1ms}); }, "all_to_all", below);
    refused([&] { kerkis::broadcast(host, alone, three, {.deadline = -1ms}); }, "broadcast", below);
    refused([&] { kerkis::scan(host, alone, three, {.deadline = -1ms}); }, "scan", below);
    refused([&] { kerkis::exclusive_scan(host, alone, three, other, {.deadline = -1ms}); }, "exclusive_scan", below);
  }
  if (world.size() == 1) return;
  const View three("three", 3), four("four", 4);
  const int next = (world.rank() + 1) % world.size();
  const std::string words = ": the deadline is -5 ms, less than 0";
  refused([&] { kerkis::barrier(world, {.deadline = -5ms}); }, "barrier", words);
  refused([&] { kerkis::all_reduce(host, world, three, {.deadline = -5ms}); }, "all_reduce", words);
  refused([&] { kerkis::all_reduce(host, world, three, {.reproducible = true, .deadline = -5ms}); }, "all_reduce",
          words);
  refused([&] { kerkis::send(host, world, three, {.to = next, .deadline = -5ms}); }, "send", words);
  refused([&] { kerkis::receive(host, world, three, {.from = next, .deadline = -5ms}); }, "receive", words);
  refused([&] { kerkis::exchange(host, world, three, four, {.with = next, .deadline = -5ms}); }, "exchange", words);
  refused([&] { kerkis::exchange(host, world, three, four, {.with = kerkis::no_rank, .deadline = -5ms}); }, "exchange",
          words);
  refused([&] { kerkis::exchange(host, world, three, four, {.with = kerkis::no_rank, .tag = -3}); },
          "exchange: tag -3 is less than 0");
  refused([&] { kerkis::persistent_all_reduce(host, world, three, {.operation = kerkis::Reduction::bitwise_and}); },
          "persistent_all_reduce: there is no bitwise and of floating-point numbers");
  refused([&] { kerkis::persistent_all_reduce(host, world, three, {.shards = 77}); },
          "persistent_all_reduce in place over ", world.size(), " ranks: 77 shards, not one of each rank");
  refused([&] { kerkis::persistent_all_reduce(host, world, three, {.deadline = -5ms}); }, "persistent_all_reduce",
          words);
  refused([&] { kerkis::persistent_broadcast(host, world, three, {.deadline = -5ms}); }, "persistent_broadcast", words);
  refused([&] { kerkis::persistent_send(host, world, three, {.to = next, .deadline = -5ms}); }, "persistent_send",
          words);
  refused([&] { kerkis::persistent_receive(host, world, three, {.from = next, .deadline = -5ms}); },
          "persistent_receive", words);
  kerkis::all_reduce(host, world, all).wait();
}

}  // namespace
