// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <kerkis/schedule/communication.hpp>
#include <kerkis/schedule/gpipe.hpp>
#include <kerkis/schedule/live.hpp>
#include <kerkis/schedule/one_forward_one_backward.hpp>
#include <kerkis/schedule/table.hpp>

#include <string>
#include <vector>

#include "schedules.hpp"

using namespace kerkis::schedule;
using kerkis::GPipe;
using kerkis::OneForwardOneBackward;

namespace {

struct NoOrder {
  static constexpr std::string_view name = "no-order";
};
struct NoName {
  static constexpr void order(PipelineShape, int, ActionList&) {}
};
static_assert(Schedule<GPipe> && Schedule<OneForwardOneBackward> && Schedule<user::GPipeV>);
static_assert(!Schedule<NoOrder> && !Schedule<NoName> && !Schedule<int>);

// F and B of backward as one block, I and W its halves.
std::string letters(const Table& table, int rank) {
  std::string text;
  for (const Action& action : table.actions(rank)) {
    text += "FBIW"[static_cast<int>(action.kind)];
    text += std::to_string(action.microbatch);
  }
  return text;
}

}  // namespace

TEST_CASE("the orders are those of the papers' figures") {
  const Table gpipe = make_table<GPipe>({2, 3});
  CHECK(letters(gpipe, 0) == "F0F1F2B0B1B2");
  CHECK(letters(gpipe, 1) == "F0F1F2B0B1B2");

  const Table one = make_table<OneForwardOneBackward>({4, 8});
  CHECK(letters(one, 0) == "F0F1F2F3B0F4B1F5B2F6B3F7B4B5B6B7");
  CHECK(letters(one, 2) == "F0F1B0F2B1F3B2F4B3F5B4F6B5F7B6B7");
  CHECK(letters(one, 3) == "F0B0F1B1F2B2F3B3F4B4F5B5F6B6F7B7");

  const Table few = make_table<OneForwardOneBackward>({4, 2});
  CHECK(letters(few, 0) == "F0F1B0B1");
  CHECK(letters(few, 3) == "F0B0F1B1");

  CHECK(letters(make_table<user::ZeroBubble<1, 1>>({2, 3}), 1) == "F0I0F1I1W0F2I2W1W2");
}

TEST_CASE("stages are looped unless the schedule places them") {
  const Table looped = make_table<user::BreadthFirst>({.ranks = 3, .microbatches = 1, .chunks = 2});
  CHECK(looped.stages() == 6);
  const Table v = make_table<user::GPipeV>({3, 1});
  CHECK(v.chunks() == 2);
  for (int rank = 0; rank < 3; ++rank) {
    CHECK(looped.stage(rank, 1) == 3 + rank);
    CHECK(v.stage(rank, 1) == 5 - rank);
    for (int chunk = 0; chunk < 2; ++chunk) {
      for (const Table* table : {&looped, &v}) {
        CHECK(table->rank_of(table->stage(rank, chunk)) == rank);
        CHECK(table->chunk_of(table->stage(rank, chunk)) == chunk);
      }
    }
  }
}

TEST_CASE("a placement must be one to one") {
  const std::vector<ActionList> lists(2);
  CHECK(Table({2, 1}, lists).well_formed());
  CHECK(Table({2, 1}, lists, {1, 0}).well_formed());
  CHECK_FALSE(Table({2, 1}, lists, {0, 0}).well_formed());
  CHECK_FALSE(Table({2, 1}, lists, {0, 2}).well_formed());
  CHECK_FALSE(Table({2, 1}, lists, {-1, 1}).well_formed());
  CHECK_FALSE(Table({2, 1}, lists, {0, 1, 2}).well_formed());
  CHECK_FALSE(Table({3, 1}, lists).well_formed());
  CHECK_FALSE(Table({2, 0}, lists).well_formed());
  CHECK_FALSE(Table({2, 1, 0}, lists).well_formed());
  CHECK_FALSE(make_table<GPipe>({0, 1}).well_formed());
  CHECK_FALSE(make_table<GPipe>({-1, 1}).well_formed());
}

TEST_CASE("the communication follows from the lists") {
  const Table table = make_table<OneForwardOneBackward>({2, 2});
  const Communication communication(table);
  REQUIRE(communication.channels().size() == 2);
  CHECK(communication.size() == 4);

  const Handoff first = communication.handoff(0, 0);  // F0 on the first rank
  CHECK(first.input == no_message);
  CHECK(communication.message(first.output) == Message{Direction::forward, 0, 0});
  CHECK(communication.channel(first.output).source == 0);
  CHECK(communication.channel(first.output).destination == 1);
  CHECK(communication.handoff(1, 0).input == first.output);
  CHECK(communication.handoff(1, 0).output == no_message);  // the last stage keeps its loss

  const Handoff gradient = communication.handoff(1, 1);  // B0 on the last rank
  CHECK(gradient.input == no_message);
  CHECK(communication.message(gradient.output) == Message{Direction::backward, 0, 0});
  CHECK(communication.handoff(0, 2).input == gradient.output);
}

TEST_CASE("boundaries between the same ranks share a channel, and own neighbours need none") {
  // 2 ranks, 3 looped chunks: rank 0 sends activations over the boundaries 0, 2, 4 and gradients over 1, 3.
  const Table looped = make_table<user::BreadthFirst>({.ranks = 2, .microbatches = 4, .chunks = 3});
  const Communication communication(looped);
  REQUIRE(communication.channels().size() == 4);
  for (const Channel& channel : communication.channels()) {
    const bool down = channel.source == 0 && channel.direction == Direction::forward;
    const bool up = channel.source == 1 && channel.direction == Direction::backward;
    CHECK(channel.size == (down || up ? 12 : 8));
  }
  CHECK(communication.size() == 40);

  CHECK(Communication(make_table<user::GPipeV>({1, 4})).size() == 0);
  CHECK(Communication(make_table<user::GPipeV>({2, 4})).size() == 2 * 2 * 4);  // the turn of the V is no message
  CHECK(Communication(make_table<GPipe>({1, 4})).size() == 0);
}

TEST_CASE("every message has one number, by the order of its sends; places are by the order of its receives") {
  for (const Table& table : {make_table<user::GPipeV>({3, 4}), make_table<user::BreadthFirst>({2, 3, 3}),
                             make_table<user::ZeroBubble<2, 2>>({4, 7})}) {
    const Communication communication(table);
    std::vector<int> sent(static_cast<std::size_t>(communication.size()), 0);
    std::vector<int> received = sent;
    for (const Channel& channel : communication.channels()) {
      int next = channel.first;
      int place = channel.first;
      for (int position = 0; position < static_cast<int>(table.actions(channel.source).size()); ++position) {
        const int output = communication.handoff(channel.source, position).output;
        if (output == no_message || &communication.channel(output) != &channel) continue;
        CHECK(output == next++);
        ++sent[static_cast<std::size_t>(output)];
      }
      for (int position = 0; position < static_cast<int>(table.actions(channel.destination).size()); ++position) {
        const Handoff handoff = communication.handoff(channel.destination, position);
        if (handoff.input == no_message || &communication.channel(handoff.input) != &channel) continue;
        CHECK(handoff.place == place++);
        CHECK(communication.consumed(handoff.place) == handoff.input);
        ++received[static_cast<std::size_t>(handoff.input)];
      }
      CHECK(next == channel.first + channel.size);
      CHECK(place == next);
    }
    for (const int times : sent) CHECK(times == 1);
    for (const int times : received) CHECK(times == 1);
  }
}

TEST_CASE("peaks of live microbatches") {
  for (int p = 1; p <= 8; ++p) {
    for (int m = 1; m <= 32; ++m) {
      const Table gpipe = make_table<GPipe>({p, m});
      const Table one = make_table<OneForwardOneBackward>({p, m});
      const Table h1 = make_table<user::ZeroBubble<1, 1>>({p, m});
      const Table h2 = make_table<user::ZeroBubble<2, 2>>({p, m});
      for (int rank = 0; rank < p; ++rank) {
        CHECK(peak_live(gpipe, rank) == Live{m, m});
        const int least = std::min(m, p - rank);
        CHECK(peak_live(one, rank) == Live{least, least});
        CHECK(peak_live(h1, rank).until_input == least);
        if (m >= p) CHECK(peak_live(h1, rank).until_weight == p);
        if (m >= 2 * p - 1) CHECK(peak_live(h2, rank) == Live{2 * (p - rank) - 1, 2 * p - 1});
      }
    }
  }
}

TEST_CASE("peaks per chunk") {
  const Table v = make_table<user::GPipeV>({2, 5});
  CHECK(peak_live(v, 0) == Live{10, 10});
  CHECK(peak_live(v, 0, 1) == Live{5, 5});
}
