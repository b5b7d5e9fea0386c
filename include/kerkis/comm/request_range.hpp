// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <functional>
#include <optional>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <kerkis/comm/request.hpp>

namespace kerkis {

// Waits for and tests of several requests at once. They take any forward range of Request or of
// std::reference_wrapper<Request> (a vector, an array, a span, a view of one member of each struct), or the requests
// themselves: wait_any(a, b). They change the requests themselves: what they report as complete is complete, what was
// received is in its View, and the next call passes over it. So
//     while (const auto i = wait_any(requests)) use(*i);
// sees each request once. Indices are places in the range. Requests of several communicators may be mixed: all that is
// pending moves on, whatever the order in which other ranks wait for it.
//
// The deadline of each pending request counts from the beginning of the call; the first that expires ends it, also in
// wait_any, with an error that names the other requests too. An error leaves the other requests as they are: those of
// communicators that have not failed can still be waited for, those of a failed one are pending for ever, and leaked.
// See docs/contract.md for progress, deadlines and failure.

namespace comm {

inline Request& request_of(Request& request) { return request; }
inline Request& request_of(std::reference_wrapper<Request> request) { return request; }

/// Calls `f(index, request)` for the pending ones, until it returns false.
template <class Requests, class F>
void for_each_pending(Requests& requests, F&& f) {
  std::size_t index = 0;
  for (auto&& element : requests) {
    Request& request = request_of(element);
    if (request.pending() && !f(index, request)) return;
    ++index;
  }
}

/// Lets all engines of pending requests move on what takes several steps, and see failures.
template <class Requests>
void poll_pending(Requests& requests) {
  const Engine* last = nullptr;
  for_each_pending(requests, [&](std::size_t, Request& request) {
    if (&request.engine() != last) request.engine().poll();
    last = &request.engine();
    return true;
  });
}

/// "; with it: send #4 …; receive #5 …", of the pending ones but one.
template <class Requests>
std::string others_pending(Requests& requests, std::size_t but) {
  std::string text;
  std::size_t count = 0;
  for_each_pending(requests, [&](std::size_t index, Request& request) {
    if (index != but && ++count <= 8) text += (count == 1 ? "; awaited with it: " : "; ") + request.text();
    return true;
  });
  return count > 8 ? message(text, "; and ", count - 8, " more") : text;
}

/// Waits until `complete()`, which tests the requests once; at least one is pending.
template <class Requests, class Complete>
void wait_together(Requests& requests, Complete&& complete) {
  using std::chrono::milliseconds;
  std::optional<WaitPolicy> policy;  // that of the first, but the earliest report of all counts
  for_each_pending(requests, [&](std::size_t, Request& request) {
    const WaitPolicy& its = request.engine().options().wait;
    if (!policy) policy = its;
    policy->first_report = std::min(policy->first_report, its.first_report);
    return true;
  });
  const auto late = [&](milliseconds waited, bool report) {
    for_each_pending(requests, [&](std::size_t index, Request& request) {
      if (!report && !request.expired(waited)) return true;
      request.check_deadline(waited, std::exchange(report, false), others_pending(requests, index));
      return true;
    });
  };
  wait_until(*policy, complete, [&] { poll_pending(requests); }, late);
}

template <class Requests>
bool any_pending(Requests& requests) {
  bool pending = false;
  for_each_pending(requests, [&](std::size_t, Request&) {
    pending = true;
    return false;
  });
  return pending;
}

/// The first that is complete now.
template <class Requests>
std::optional<std::size_t> advance_any(Requests& requests) {
  std::optional<std::size_t> found;
  for_each_pending(requests, [&](std::size_t index, Request& request) {
    if (request.advance()) found = index;
    return !found;
  });
  return found;
}

/// Puts those that are complete now behind `found`.
template <class Requests>
void advance_some(Requests& requests, std::vector<std::size_t>& found) {
  for_each_pending(requests, [&](std::size_t index, Request& request) {
    if (request.advance()) found.push_back(index);
    return true;
  });
}

template <class Requests>
bool advance_all(Requests& requests) {
  bool complete = true;
  for_each_pending(requests, [&](std::size_t, Request& request) {
    complete &= request.advance();
    return true;
  });
  return complete;
}

template <class Range>
concept RequestRange = std::ranges::forward_range<Range> && requires(std::ranges::range_reference_t<Range> element) {
  { request_of(element) } -> std::same_as<Request&>;
};

template <class... R>
concept Requests = sizeof...(R) > 0 && (std::same_as<std::remove_reference_t<R>, Request> && ...);

template <class... R>
std::array<std::reference_wrapper<Request>, sizeof...(R)> refer(R&... requests) {
  return {requests...};
}

}  // namespace comm

/// Returns when all are complete. Throws CommError.
template <comm::RequestRange Range>
void wait_all(Range&& requests) {
  if (comm::any_pending(requests)) comm::wait_together(requests, [&] { return comm::advance_all(requests); });
}

/// Returns when one of the pending requests is complete, and which: the first of the range if there are several.
/// Nothing if none was pending. Throws CommError.
template <comm::RequestRange Range>
[[nodiscard]] std::optional<std::size_t> wait_any(Range&& requests) {
  std::optional<std::size_t> found;
  if (comm::any_pending(requests))
    comm::wait_together(requests, [&] { return (found = comm::advance_any(requests)).has_value(); });
  return found;
}

/// Returns when at least one of the pending requests is complete, and all that are then, in the order of the range;
/// nothing if none was pending. Throws CommError; but if some were complete before one failed it returns those, and the
/// next call throws.
template <comm::RequestRange Range>
[[nodiscard]] std::vector<std::size_t> wait_some(Range&& requests) {
  std::vector<std::size_t> found;
  if (!comm::any_pending(requests)) return found;
  try {
    comm::wait_together(requests, [&] {
      comm::advance_some(requests, found);
      return !found.empty();
    });
  } catch (const CommError&) {
    if (found.empty()) throw;
  }
  return found;
}

/// Whether all are complete; what could be completed is, in any case. Throws CommError.
template <comm::RequestRange Range>
[[nodiscard]] bool test_all(Range&& requests) {
  if (comm::advance_all(requests)) return true;
  comm::poll_pending(requests);
  return false;
}

/// A pending request that is complete now: the first of the range if there are several. Nothing if there is none, or
/// none was pending. Throws CommError.
template <comm::RequestRange Range>
[[nodiscard]] std::optional<std::size_t> test_any(Range&& requests) {
  const auto found = comm::advance_any(requests);
  if (!found) comm::poll_pending(requests);
  return found;
}

/// All pending requests that are complete now, in the order of the range. Errors as in wait_some.
template <comm::RequestRange Range>
[[nodiscard]] std::vector<std::size_t> test_some(Range&& requests) {
  std::vector<std::size_t> found;
  try {
    comm::advance_some(requests, found);
    if (found.empty()) comm::poll_pending(requests);
  } catch (const CommError&) {
    if (found.empty()) throw;
  }
  return found;
}

/// @name The same for requests that are given one by one
/// @{
/// Waits for all.
template <class... R>
  requires comm::Requests<R...>
void wait_all(R&&... requests) {
  wait_all(comm::refer(requests...));
}
/// Waits for one.
template <class... R>
  requires comm::Requests<R...>
[[nodiscard]] std::optional<std::size_t> wait_any(R&&... requests) {
  return wait_any(comm::refer(requests...));
}
/// Waits for one or more.
template <class... R>
  requires comm::Requests<R...>
[[nodiscard]] std::vector<std::size_t> wait_some(R&&... requests) {
  return wait_some(comm::refer(requests...));
}
/// Whether all are complete.
template <class... R>
  requires comm::Requests<R...>
[[nodiscard]] bool test_all(R&&... requests) {
  return test_all(comm::refer(requests...));
}
/// One that is complete.
template <class... R>
  requires comm::Requests<R...>
[[nodiscard]] std::optional<std::size_t> test_any(R&&... requests) {
  return test_any(comm::refer(requests...));
}
/// All that are complete.
template <class... R>
  requires comm::Requests<R...>
[[nodiscard]] std::vector<std::size_t> test_some(R&&... requests) {
  return test_some(comm::refer(requests...));
}
/// @}

}  // namespace kerkis
