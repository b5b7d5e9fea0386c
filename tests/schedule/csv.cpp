// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <kerkis/schedule/csv.hpp>
#include <kerkis/schedule/forward_only.hpp>
#include <kerkis/schedule/registry.hpp>
#include <kerkis/schedule/verifier.hpp>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>

using namespace kerkis;
using namespace kerkis::schedule;

namespace {

/// Whether every rank does the same in the same order, stage by stage: a file does not say how chunks are numbered.
bool same(const Table& a, const Table& b) {
  if (a.shape() != b.shape() || a.purpose() != b.purpose()) return false;
  for (int rank = 0; rank < a.ranks(); ++rank) {
    const auto alike = [&](const Action& x, const Action& y) {
      return x.kind == y.kind && x.microbatch == y.microbatch && a.stage(rank, x.chunk) == b.stage(rank, y.chunk);
    };
    if (!std::ranges::equal(a.actions(rank), b.actions(rank), alike)) return false;
  }
  return true;
}

std::string contents(const char* name) {
  const std::filesystem::path path = std::filesystem::path(__FILE__).parent_path() / "data" / name;
  std::ifstream file(path, std::ios::binary);
  CAPTURE(path.string());
  CHECK(file);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace

TEST_CASE("written as PyTorch writes it") {
  CHECK(to_csv(make_table<OneForwardOneBackward>({2, 2})) == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n");
  CHECK(to_csv(make_table<ZeroBubbleH1>({1, 2})) == "0F0,0I0,0W0,0F1,0I1,0W1\n");
  CHECK(to_csv(make_table<ForwardOnly>({2, 1, 2})) == "0F0,2F0\n1F0,3F0\n");
  CHECK(to_csv(make_table<ZeroBubbleV>({4, 8})) == contents("zb-v.4.8.csv"));
  CHECK(to_csv(make_table<Interleaved<2>>({2, 4})) == contents("interleaved.2.4.2.csv"));
}

TEST_CASE("what is written is read again") {
  for (const std::string_view name : Known::names) {
    for (const PipelineShape shape : {PipelineShape{1, 1}, {2, 3}, {4, 4}, {3, 16}}) {
      CAPTURE(name);
      const Table table = make_table(name, shape);
      CHECK(same(table, from_csv(to_csv(table))));
    }
  }
  const Table forward = make_table<ForwardOnly>({3, 4, 2});
  CHECK(same(forward, from_csv(to_csv(forward))));
}

TEST_CASE("pauses, messages and line ends do not matter") {
  const Table table = make_table<OneForwardOneBackward>({2, 2});
  CHECK(same(table, from_csv("0F0,0F1,0B0,0B1\r\n1F0,1B0,1F1,1B1\r\n")));
  CHECK(same(table, from_csv("0F0,0F1,,,0B0,,0B1\n, 1F0 ,1B0,1F1,1B1,,\n\n\n")));
  CHECK(same(table, from_csv("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n1RECV_F0,1F0,1B0,1SEND_B,1F1,1B1")));
  CHECK(from_csv("0F0\n").purpose() == Purpose::inference);
}

TEST_CASE("what is no such file is refused with row and cell") {
  const auto refused_with = [](std::string_view text, std::string_view words) {
    try {
      (void)from_csv(text);
    } catch (const InputError& error) {
      CAPTURE(std::string(error.what()));
      CHECK(std::string_view(error.what()).find(words) != std::string_view::npos);
      return;
    }
    FAIL_CHECK("not refused: ", text);
  };
  refused_with("", "there is no action in it");
  refused_with("\n,,\n", "there is no action in it");
  refused_with("0F0,0B0\n1F0,1X0", "row 2, cell 2: 1X0 is no forward");
  refused_with("0F0,0UNSHARD", "row 1, cell 2: 0UNSHARD is no forward");
  refused_with("0F0,0RESHARD,0B0", "cell 2: 0RESHARD is no forward");
  refused_with("(0F1;3B2)OVERLAP_F_B", "lacks a number");
  refused_with("F0", "lacks a number");
  refused_with("0F", "lacks a number");
  refused_with("0F-1", "is no forward");
  refused_with("-1F0", "lacks a number");
  refused_with("0F99999999999999999999", "out of range");
  refused_with("0F2147483647,0B2147483647", "2 actions are too few for 1 stages and 2147483648 microbatches");
  refused_with("2147483647F0", "too few");
  refused_with("0F0x", "goes on after the microbatch");
  refused_with("0F0\x1b[2J", "0F0?[2J goes on");
  refused_with("\"0F0\"", "lacks a number");
  refused_with("0F0,0B0,2F0,2B0\n1F0,1B0", "every rank must have as many");
  refused_with("0F0,0B0,2F0,2B0\n1F0,1B0,1F1", "every rank must have as many");
  refused_with("0F0,0B0,1F0,1B0\n1F0,1B0,3F0,3B0", "stage 1 is on two ranks");
  refused_with("0F0,0B0,1F0,1B0,2F0\n3F0,3B0", "row 1 has 3 stages, not 2");
}

TEST_CASE("damaged files are read or refused, and what is read is judged") {
  std::mt19937 random(20260729);
  const std::string sources[] = {to_csv(make_table<ZeroBubbleV>({3, 4})), to_csv(make_table<Interleaved<2>>({2, 4})),
                                 to_csv(make_table<GPipe>({2, 2})), "0F0,0SEND_F0\n1RECV_F0,1F0\n"};
  constexpr std::string_view spice = "0123456789FBIW,\n\r \tSENDRCV_-+.\"x;()\xff";
  int read = 0, refused = 0, sound = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    std::string text = sources[random() % std::size(sources)];
    for (auto k = random() % 4 + 1; k > 0 && !text.empty(); --k) {
      const std::size_t at = random() % text.size();
      switch (random() % 5) {
      case 0:
        text[at] = spice[random() % spice.size()];
        break;
      case 1:
        text.insert(at, 1, spice[random() % spice.size()]);
        break;
      case 2:
        text.erase(at, random() % 4);
        break;
      case 3:
        text.resize(at);
        break;
      default:
        text.insert(at, text.substr(random() % text.size(), random() % 20));
        break;
      }
    }
    try {
      const Table table = from_csv(text);
      ++read;
      sound += verify(table).ok();
      CHECK(same(table, from_csv(to_csv(table))));
    } catch (const InputError&) {
      ++refused;
    }
  }
  CHECK(read > 1000);
  CHECK(refused > 1000);
  CHECK(sound > 100);
}
