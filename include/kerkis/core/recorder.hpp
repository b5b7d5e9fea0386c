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

/// What a rank did from `start` to `end`, in nanoseconds of its own steady clock. Which computation it was says
/// (microbatch, chunk, stage); -1: none.
struct Event {
  char name[24] = {};
  std::int64_t start = 0, end = 0;
  std::int32_t microbatch = -1, chunk = -1, stage = -1;
  std::uint64_t sent = 0, received = 0;  ///< the messages that left at its end and that it waited for; 0: none
};
static_assert(std::is_trivially_copyable_v<Event>);

/// The events of one rank, in memory until the end. Costs two readings of the clock per event.
class Recorder {
 public:
  explicit Recorder(std::size_t expected = 1 << 14) { events_.reserve(expected); }

  static std::int64_t now() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }

  /// `name`: 23 bytes of it are kept.
  void add(std::string_view name, Event event) {
    name.copy(event.name, sizeof event.name - 1);
    events_.push_back(event);
  }
  const std::vector<Event>& events() const { return events_; }
  void clear() { events_.clear(); }

 private:
  std::vector<Event> events_;
};

/// Records what happens during its life; does nothing without a recorder.
class Span {
 public:
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

  void sent(std::uint64_t message) { event_.sent = message; }
  void received(std::uint64_t message) { event_.received = message; }

 private:
  Recorder* recorder_;
  std::string_view name_;
  Event event_;
};

}  // namespace kerkis::trace
