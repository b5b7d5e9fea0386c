// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <kerkis/comm/all_gather.hpp>
#include <kerkis/comm/gather.hpp>
#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/on_root.hpp>
#include <kerkis/core/recorder.hpp>

namespace kerkis::trace {

/// How far rank 0's clock is ahead of this rank's, in nanoseconds: of 16 round trips the shortest, taken as symmetric
/// (Cristian 1989, "Probabilistic clock synchronization"). Wrong by half that round trip at most. Collective.
inline std::int64_t clock_offset(const Communicator& communicator) {
  const Kokkos::DefaultHostExecutionSpace host;
  Kokkos::View<std::int64_t, Kokkos::HostSpace> time("kerkis::trace::time");
  std::int64_t offset = 0;
  for (int rank = 1; rank < communicator.size(); ++rank) {
    std::int64_t shortest = std::numeric_limits<std::int64_t>::max();
    for (int trip = 0; trip < 16; ++trip) {
      if (communicator.rank() == 0) {
        receive(host, communicator, time, {.from = rank}).wait();
        time() = Recorder::now();
        send(host, communicator, time, {.to = rank}).wait();
      } else if (communicator.rank() == rank) {
        const std::int64_t before = Recorder::now();
        send(host, communicator, time, {.to = 0}).wait();
        receive(host, communicator, time, {.from = 0}).wait();
        const std::int64_t after = Recorder::now();
        if (after - before >= shortest) continue;
        shortest = after - before;
        offset = time() - (before + after) / 2;
      }
    }
  }
  return offset;
}

/// Writes the events of all ranks as one file of Chrome's trace event format, which chrome://tracing and Perfetto
/// show: a process per rank, named by `label` (its first 92 bytes), on rank 0's clock, in microseconds from the first
/// event; messages are arrows. Collective; rank 0 writes. Throws InputError on every rank if the file can't be written.
inline void write_chrome(const std::string& path, const Communicator& communicator, const Recorder& recorder,
                         const std::string& label) {
  const Kokkos::DefaultHostExecutionSpace host;
  const std::int64_t offset = clock_offset(communicator);
  std::vector<Event> mine = recorder.events();
  for (Event& event : mine) event.start += offset, event.end += offset;
  // The label travels in front of the rank's events, in pieces.
  constexpr std::size_t pieces = 4, piece = sizeof(Event::name) - 1;
  mine.insert(mine.begin(), pieces, Event{});
  for (std::size_t i = 0; i < pieces && i * piece < label.size(); ++i) label.copy(mine[i].name, piece, i * piece);

  const auto ranks = static_cast<std::size_t>(communicator.size());
  using Unmanaged = Kokkos::MemoryTraits<Kokkos::Unmanaged>;
  std::vector<std::size_t> counts(ranks, mine.size());
  {
    Kokkos::View<std::size_t, Kokkos::HostSpace> count("kerkis::trace::count");
    count() = mine.size();
    all_gather(host, communicator, count,
               Kokkos::View<std::size_t*, Kokkos::HostSpace, Unmanaged>(counts.data(), ranks))
        .wait();
  }
  std::size_t total = 0;
  for (const std::size_t count : counts) total += count;
  std::vector<Event> all(communicator.rank() == 0 ? total : 0);
  using Events = Kokkos::View<Event*, Kokkos::HostSpace, Unmanaged>;
  gather(host, communicator, Events(mine.data(), mine.size()), Events(all.data(), all.size()), {.counts = counts})
      .wait();

  on_root(communicator, [&] {
    std::int64_t first = std::numeric_limits<std::int64_t>::max();
    for (const Event& event : all)
      if (event.end != 0) first = std::min(first, event.start);
    const auto microseconds = [first](std::int64_t time) { return static_cast<double>(time - first) * 1e-3; };

    std::ofstream file(path);
    require(file.is_open(), "trace: '", path, "' can't be written");
    file << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
    const char* separator = "";
    const auto put = [&](const nlohmann::json& json) {
      file << separator << json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
      separator = ",\n";
    };
    std::size_t next = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::size_t end = next + counts[rank];
      std::string its_label;
      for (std::size_t i = 0; i < pieces; ++i) its_label += all[next++].name;
      put({{"ph", "M"}, {"name", "process_name"}, {"pid", rank}, {"args", {{"name", its_label}}}});
      put({{"ph", "M"}, {"name", "process_sort_index"}, {"pid", rank}, {"args", {{"sort_index", rank}}}});
      for (; next < end; ++next) {
        const Event& event = all[next];
        const double start = microseconds(event.start), stop = microseconds(event.end);
        nlohmann::json json{{"ph", "X"}, {"name", event.name}, {"pid", rank},
                            {"tid", 0},  {"ts", start},        {"dur", stop - start}};
        if (event.microbatch >= 0)
          json["args"] = {{"microbatch", event.microbatch}, {"chunk", event.chunk}, {"stage", event.stage}};
        put(json);
        const auto arrow = [&](const char* phase, std::uint64_t id, double time) {
          put({{"ph", phase},
               {"bp", "e"},
               {"name", "message"},
               {"cat", "message"},
               {"id", id},
               {"pid", rank},
               {"tid", 0},
               {"ts", time}});
        };
        // Inside the event, so that the arrow is bound to it.
        if (event.sent != 0) arrow("s", event.sent, stop - 1e-3);
        if (event.received != 0) arrow("f", event.received, stop - 1e-3);
      }
    }
    file << "\n]}\n";
    file.close();
    require(file.good(), "trace: '", path, "' could not be written whole");
  });
}

}  // namespace kerkis::trace
