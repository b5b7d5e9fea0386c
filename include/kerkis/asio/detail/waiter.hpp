// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/associated_allocator.hpp>
#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/execution/outstanding_work.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/prefer.hpp>
#include <boost/asio/recycling_allocator.hpp>

#include <chrono>
#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <utility>

#include <kerkis/comm/request.hpp>

namespace kerkis::asio::detail {

/// A request and, derived from this, the handler that waits for it.
class Waiter {
 public:
  using Clock = std::chrono::steady_clock;

  Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  /// Who drops a pending operation with its handler does not wait for it: it is withdrawn or goes on by itself.
  virtual ~Waiter() {
    try {
      if (comm::mpi_is_alive()) request.cancel();
    } catch (const Error&) {  // the communicator is poisoned: it keeps the operation for ever
    }
    request.detach();
  }

  /// Posts the handler; once.
  virtual void complete(std::exception_ptr error) = 0;

  Request request;
  std::size_t place = 0;  // in the poller's list
  Clock::time_point start{};
  unsigned tests = 0;          // of the request
  bool reported = false;       // on stderr, that the wait is long
  std::exception_ptr failure;  // of a peer, seen at `failed`
  Clock::time_point failed{};
};

/// A handler with its error, to be called once on the handler's executor.
template <class Handler>
struct Completion {
  using allocator_type = boost::asio::associated_allocator_t<Handler>;
  allocator_type get_allocator() const noexcept { return boost::asio::get_associated_allocator(handler); }

  void operator()() {
    // The slot is the handler's: it is cleared where the handler runs, not where the operation was found complete.
    if (auto slot = boost::asio::get_associated_cancellation_slot(handler); slot.is_connected()) slot.clear();
    std::move(handler)(std::move(error));
  }

  Handler handler;
  std::exception_ptr error;
};

/// The handler's allocator, or where it has none Asio's, which keeps memory for the next operation.
template <class T, class Handler>
auto allocator_of(const Handler& handler) {
  using Associated = boost::asio::associated_allocator_t<Handler, boost::asio::recycling_allocator<void>>;
  return typename std::allocator_traits<Associated>::template rebind_alloc<T>(
      boost::asio::get_associated_allocator(handler, boost::asio::recycling_allocator<void>()));
}

template <class Handler, class Executor>
class HandlerWaiter final : public Waiter {
 public:
  /// A handler without an executor of its own runs on `fallback`.
  template <class Given>
  HandlerWaiter(Given&& handler, const Executor& fallback)
      : handler_(std::forward<Given>(handler)),
        executor_(tracked(boost::asio::get_associated_executor(handler_, fallback))) {}

  void complete(std::exception_ptr error) override {
    boost::asio::post(*executor_, Completion<Handler>{std::move(handler_), std::move(error)});
    executor_.reset();
  }

 private:
  /// The context of the handler's executor goes on until the handler is posted.
  static auto tracked(const boost::asio::associated_executor_t<Handler, Executor>& executor) {
    return boost::asio::prefer(executor, boost::asio::execution::outstanding_work.tracked);
  }

  Handler handler_;
  std::optional<decltype(tracked(std::declval<boost::asio::associated_executor_t<Handler, Executor>>()))> executor_;
};

}  // namespace kerkis::asio::detail
