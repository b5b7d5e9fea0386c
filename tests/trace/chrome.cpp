// SPDX-License-Identifier: Apache-2.0
// A trace of all ranks as a program that shows traces reads it.
#include <doctest/doctest.h>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/trace/chrome.hpp>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

namespace {

using kerkis::Communicator;
namespace trace = kerkis::trace;

std::string path(const Communicator& world) {
  const char* folder = std::getenv("TMPDIR");
  return kerkis::message(folder != nullptr ? folder : "/tmp", "/kerkis_trace_test_", world.size(), ".json");
}

TEST_CASE("no recorder, no event") {
  trace::Recorder recorder;
  {
    trace::Span none(nullptr, "forward", 1, 2, 3);
    none.sent(7);
  }
  CHECK(recorder.events().empty());
  {
    const trace::Span span(&recorder, "a name that is longer than twenty-three bytes", 1, 2, 3);
  }
  REQUIRE(recorder.events().size() == 1);
  const trace::Event& event = recorder.events().front();
  CHECK(std::string(event.name) == "a name that is longer t");
  CHECK(event.end >= event.start);
  CHECK(event.microbatch == 1);
  CHECK(event.chunk == 2);
  CHECK(event.stage == 3);
}

TEST_CASE("one file with the events of all ranks, in one order of time") {
  const Communicator world(MPI_COMM_WORLD);
  trace::Recorder recorder;
  // Rank after rank: the barriers order the events in time, so that a wrong clock is seen.
  for (int turn = 0; turn < world.size(); ++turn) {
    if (turn == world.rank()) {
      trace::Span span(&recorder, "forward \"\xff", turn, 0, turn);
      if (turn + 1 < world.size()) span.sent(static_cast<std::uint64_t>(turn) + 1);
      if (turn > 0) span.received(static_cast<std::uint64_t>(turn));
    }
    kerkis::barrier(world).wait();
  }
  trace::write_chrome(path(world), world, recorder, kerkis::message("rank ", world.rank(), " of the test"));
  if (world.rank() == 0) {
    std::ifstream file(path(world));
    const auto json = nlohmann::json::parse(file);
    std::map<int, nlohmann::json> spans;
    std::map<std::string, int> phases;
    for (const auto& event : json.at("traceEvents")) {
      ++phases[event.at("ph").get<std::string>()];
      if (event.at("ph") == "X") spans[event.at("pid").get<int>()] = event;
      if (event.at("name") == "process_name")
        CHECK(event.at("args").at("name") == kerkis::message("rank ", event.at("pid").get<int>(), " of the test"));
    }
    CHECK(static_cast<int>(spans.size()) == world.size());
    CHECK(phases["s"] == world.size() - 1);
    CHECK(phases["f"] == world.size() - 1);
    double end = -1;
    for (const auto& [rank, event] : spans) {
      CHECK(event.at("args").at("microbatch") == rank);
      CHECK(event.at("args").at("stage") == rank);
      CHECK(event.at("ts").get<double>() > end);
      end = event.at("ts").get<double>() + event.at("dur").get<double>();
    }
  }
  kerkis::barrier(world).wait();
  if (world.rank() == 0) std::remove(path(world).c_str());
}

TEST_CASE("ranks without events, and a file that can't be written") {
  const Communicator world(MPI_COMM_WORLD);
  trace::write_chrome(path(world), world, trace::Recorder(), "");
  if (world.rank() == 0) {
    std::ifstream file(path(world));
    CHECK(nlohmann::json::parse(file).at("traceEvents").size() == 2 * static_cast<std::size_t>(world.size()));
  }
  kerkis::barrier(world).wait();
  if (world.rank() == 0) std::remove(path(world).c_str());
  CHECK_THROWS_AS(trace::write_chrome("/no/such/folder/trace.json", world, trace::Recorder(), ""), kerkis::InputError);
}

}  // namespace
