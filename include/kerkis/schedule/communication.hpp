// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <kerkis/schedule/action.hpp>
#include <kerkis/schedule/detail/array.hpp>
#include <kerkis/schedule/table.hpp>

namespace kerkis::schedule {

/// Which way a message goes.
enum class Direction : unsigned char {
  forward,  ///< an activation on its way to the next stage
  backward  ///< its gradient on the way back
};

/// One hand-off between two ranks. Boundary b lies between the stages b and b + 1; behind the last stage, if its
/// results are fed back, is the first one.
struct Message {
  Direction direction = Direction::forward;  ///< activation or gradient
  int boundary = 0;                          ///< that it crosses, from 0
  int microbatch = 0;                        ///< to which it belongs, from 0

  friend constexpr bool operator==(const Message&, const Message&) = default;
};

/// In the place of a boundary: there is none.
inline constexpr int no_boundary = -1;

/// What the forward of a stage takes: of no_boundary if nothing.
[[nodiscard]] constexpr Message forward_input(const Table& table, int stage, int microbatch) noexcept {
  if (stage > 0) return {Direction::forward, stage - 1, microbatch};
  const int fed = microbatch - table.feedback();
  if (table.feedback() == 0 || fed < 0) return {Direction::forward, no_boundary, microbatch};
  return {Direction::forward, table.stages() - 1, fed};
}
/// What the forward of a stage makes for another: of no_boundary if nothing.
[[nodiscard]] constexpr Message forward_output(const Table& table, int stage, int microbatch) noexcept {
  const bool last = stage + 1 == table.stages();
  const bool fed = table.feedback() > 0 && microbatch + table.feedback() < table.microbatches();
  return {Direction::forward, last && !fed ? no_boundary : stage, microbatch};
}

/// All that one rank sends to another in one direction, over every boundary between the two. Its messages are numbered
/// one after the other, in the order in which the source sends them.
struct Channel {
  Direction direction = Direction::forward;  ///< of all its messages
  int source = 0;                            ///< the rank that sends
  int destination = 0;                       ///< the rank that receives
  int first = 0;                             ///< number of its first message
  int size = 0;                              ///< how many messages it has
};

/// In the place of a message's number: there is none.
inline constexpr int no_message = -1;

/// The messages of one action.
struct Handoff {
  int input = no_message;   ///< received before it
  int place = no_message;   ///< the input is the (place - first)-th that the rank consumes from its channel
  int output = no_message;  ///< sent after it
};

/// The communication that follows from a table with valid lists, whatever kinds of action they hold: forwards send on,
/// what gives the gradient of an input sends back, nothing else has messages. Each message has one number, the same on
/// every rank. Nothing is sent at the ends of the pipeline (but what is fed back), nor between two stages of one
/// rank.
class Communication {
 public:
  /// Of a table whose lists are valid. It keeps no reference.
  constexpr explicit Communication(const Table& table)
      : microbatches_(table.microbatches()), boundaries_(table.stages() - (table.feedback() > 0 ? 0 : 1)),
        channel_of_(2 * boundaries_ + 1), messages_(2 * boundaries_ * microbatches_ + 1),
        consumed_(2 * boundaries_ * microbatches_ + 1), handoffs_(actions_of(table)), first_handoff_(table.ranks()) {
    make_channels(table);
    detail::Array<int> number_of(2 * boundaries_ * microbatches_ + 1);
    number_sends(table, number_of);
    number_receives(table, number_of);
  }

  /// In the order of their messages' numbers.
  [[nodiscard]] constexpr std::span<const Channel> channels() const noexcept { return channels_; }
  [[nodiscard]] constexpr int size() const noexcept { return size_; }  ///< how many messages there are

  /// The message of a number from 0 to size() - 1.
  [[nodiscard]] constexpr const Message& message(int number) const { return messages_[number]; }
  /// The channel through which that message goes.
  [[nodiscard]] constexpr const Channel& channel(int number) const { return at(channel_of_[row(messages_[number])]); }

  /// For the place-th action of a rank's list.
  [[nodiscard]] constexpr const Handoff& handoff(int rank, int position) const {
    return handoffs_[first_handoff_[rank] + position];
  }

  /// The message that the destination consumes in the given place, counted as in Handoff. Places and numbers differ
  /// only if a rank consumes messages in another order than they are sent.
  [[nodiscard]] constexpr int consumed(int place) const { return consumed_[place]; }

 private:
  // Of a boundary and direction; of a message.
  constexpr int row(Message message) const noexcept {
    return message.direction == Direction::forward ? message.boundary : message.boundary + boundaries_;
  }
  constexpr int key(Message message) const noexcept { return row(message) * microbatches_ + message.microbatch; }

  constexpr const Channel& at(int index) const { return channels_[static_cast<std::size_t>(index)]; }

  static constexpr int actions_of(const Table& table) {
    std::size_t sum = 0;
    for (int rank = 0; rank < table.ranks(); ++rank) sum += table.actions(rank).size();
    return static_cast<int>(sum);
  }

  constexpr void make_channels(const Table& table) {
    // Of each rank's outgoing channels the newest, and of each channel the one before it; 0 is none, k the (k-1)-th.
    channels_.reserve(2 * static_cast<std::size_t>(boundaries_));
    detail::Array<int> newest(table.ranks());
    detail::Array<int> before(2 * boundaries_ + 1);
    const auto join = [&](Channel wanted) {
      for (int k = newest[wanted.source]; k != 0; k = before[k - 1]) {
        Channel& channel = channels_[static_cast<std::size_t>(k - 1)];
        if (channel.direction != wanted.direction || channel.destination != wanted.destination) continue;
        channel.size += wanted.size;
        return k - 1;
      }
      const int index = static_cast<int>(channels_.size());
      channels_.push_back(wanted);
      before[index] = newest[wanted.source];
      newest[wanted.source] = index + 1;
      return index;
    };
    for (int boundary = 0; boundary < boundaries_; ++boundary) {
      const bool feeds_back = boundary + 1 == table.stages();
      const int below = table.rank_of(boundary);
      const int above = table.rank_of(feeds_back ? 0 : boundary + 1);
      const int size = microbatches_ - (feeds_back ? table.feedback() : 0);
      channel_of_[boundary] = channel_of_[boundary + boundaries_] = none;
      if (below == above || size <= 0) continue;
      channel_of_[boundary] = join({Direction::forward, below, above, 0, size});
      if (table.trains()) channel_of_[boundary + boundaries_] = join({Direction::backward, above, below, 0, size});
    }
    for (Channel& channel : channels_) {
      channel.first = size_;
      size_ += channel.size;
    }
  }

  constexpr void number_sends(const Table& table, detail::Array<int>& number_of) {
    detail::Array<int> sent(2 * boundaries_ + 1);  // per channel
    int next = 0;
    for (int rank = 0; rank < table.ranks(); ++rank) {
      first_handoff_[rank] = next;
      for (const Action& action : table.actions(rank)) {
        Handoff& handoff = handoffs_[next++];
        const bool forward = computes_forward(action.kind);
        if (!forward && !computes_input_gradient(action.kind)) continue;
        const int stage = table.stage(rank, action.chunk);
        const Message message = forward ? forward_output(table, stage, action.microbatch)
                                        : Message{Direction::backward, stage - 1, action.microbatch};
        if (message.boundary < 0) continue;
        const int channel = channel_of_[row(message)];
        if (channel == none) continue;
        handoff.output = at(channel).first + sent[channel]++;
        messages_[handoff.output] = message;
        number_of[key(message)] = handoff.output;
      }
    }
  }

  constexpr void number_receives(const Table& table, const detail::Array<int>& number_of) {
    detail::Array<int> received(2 * boundaries_ + 1);  // per channel
    int next = 0;
    for (int rank = 0; rank < table.ranks(); ++rank) {
      for (const Action& action : table.actions(rank)) {
        Handoff& handoff = handoffs_[next++];
        const bool forward = computes_forward(action.kind);
        if (!forward && !computes_input_gradient(action.kind)) continue;
        const int stage = table.stage(rank, action.chunk);
        const Message message = forward ? forward_input(table, stage, action.microbatch)
                                        : Message{Direction::backward, stage, action.microbatch};
        if (message.boundary < 0 || message.boundary == boundaries_) continue;
        const int channel = channel_of_[row(message)];
        if (channel == none) continue;
        handoff.input = number_of[key(message)];
        handoff.place = at(channel).first + received[channel]++;
        consumed_[handoff.place] = handoff.input;
      }
    }
  }

  static constexpr int none = -1;

  int microbatches_;
  int boundaries_;
  int size_ = 0;
  std::vector<Channel> channels_;
  detail::Array<int> channel_of_;  // by row
  detail::Array<Message> messages_;
  detail::Array<int> consumed_;  // by place
  detail::Array<Handoff> handoffs_;
  detail::Array<int> first_handoff_;  // by rank
};

}  // namespace kerkis::schedule
