// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

namespace kerkis::trace {

/// Something that a rank did.
struct Event {
  char name[24] = {};  ///< at most 23 bytes, then zeros
  /// When it began, in nanoseconds of Recorder::now.
  std::int64_t start = 0, end = 0;  ///< when it ended, likewise
  std::int32_t microbatch = -1,     ///< for which it was; -1: for none
      chunk = -1,                   ///< of this rank
      stage = -1;                   ///< of the pipeline
  /// The message that left at its end; 0: none.
  std::uint64_t sent = 0, received = 0;  ///< the message for which it waited; 0: none
};
static_assert(std::is_trivially_copyable_v<Event>);

/// The events of one rank, in memory until the end. Costs two readings of the clock per event.
class Recorder {
 public:
  /// Has room for so many events; more are kept too.
  explicit Recorder(std::size_t expected = 1 << 14) { events_.reserve(expected); }

  /// Nanoseconds of this rank's steady clock, the one of all its events.
  static std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  /// `name`: 23 bytes of it are kept.
  void add(std::string_view name, Event event) {
    name.copy(event.name, sizeof event.name - 1);
    events_.push_back(event);
  }
  /// In the order in which they were added: as they ended.
  const std::vector<Event>& events() const { return events_; }
  /// Forgets all events, and keeps their memory.
  void clear() { events_.clear(); }

 private:
  std::vector<Event> events_;
};

/// Records what happens during its life; does nothing without a recorder.
class Span {
 public:
  /// Begins. `recorder` (may be null) and what `name` refers to must outlive it; the numbers are those of Event.
  Span(Recorder* recorder, std::string_view name, int microbatch = -1, int chunk = -1, int stage = -1)
      : recorder_(recorder), name_(name) {
    if (recorder_ == nullptr) return;
    event_.microbatch = microbatch, event_.chunk = chunk, event_.stage = stage;
    event_.start = Recorder::now();
  }
  Span(const Span&) = delete;
  Span& operator=(const Span&) = delete;
  ~Span() {
    if (recorder_ == nullptr) return;
    event_.end = Recorder::now();
    recorder_->add(name_, event_);
  }

  /// The message of this number leaves at its end.
  void sent(std::uint64_t message) { event_.sent = message; }
  /// It has waited for the message of this number.
  void received(std::uint64_t message) { event_.received = message; }

 private:
  Recorder* recorder_;
  std::string_view name_;
  Event event_;
};

}  // namespace kerkis::trace
