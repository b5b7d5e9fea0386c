// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>

#include <concepts>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>

#include <kerkis/asio/bridge_options.hpp>
#include <kerkis/asio/detail/poller.hpp>
#include <kerkis/comm/request.hpp>

namespace kerkis::asio {

/// Completes kerkis' operations on a user's Boost.Asio io_context, beside sockets, timers and signals:
///
///   kk::asio::Bridge bridge(io_context);
///   co_await bridge.async_wait(kk::all_reduce(execution, communicator, view));
///
/// Any completion token will do: a callback, deferred (the default), use_awaitable, use_future, as_tuple…; the
/// signature is void(std::exception_ptr), null for success. Else it holds what `Request::wait` throws (CommError,
/// PeerError), or boost::system::system_error with operation_aborted after a cancellation. The associated executor,
/// allocator and cancellation slot of a handler are used; a handler without an executor runs on `get_executor()`. No
/// handler is called inside the call that starts its wait.
///
/// - `run()` goes on as long as an operation is pending, and no longer.
/// - The deadline of an operation, and its first report on stderr, count from `async_wait`. Its expiry, and any other
///   failure, poisons the communicator as elsewhere.
/// - Cancellation, through the slot (as `||` with a timer does) or by `cancel`: a receive to which no message has come
///   is withdrawn. Any other wait ends at once, while the operation goes on, completed by later calls of its
///   communicator; it keeps managed Views alive, but the memory of unmanaged ones must last. Of the cancellation type
///   `total` only receives take notice.
/// - Threads: MPI is called in the strand `get_executor()` only. With several threads in `run()`, operations must be
///   started there too: by a coroutine spawned on it, or through `async_start`; MPI_THREAD_SERIALIZED is needed. Below
///   that level `run()` belongs on the thread that initialised MPI; on another one waits end with InputError.
/// - The destructor cancels what is pending. If the io_context ends before its handlers have run they are dropped, as
///   Asio does, and their operations withdrawn or left to go on; a bridge may outlive its io_context.
class Bridge {
 public:
  using executor_type = detail::Strand;  ///< of the io_context

  /// Completes operations on `context`.
  explicit Bridge(boost::asio::io_context& context, BridgeOptions options = {})
      : poller_(std::make_shared<detail::Poller>(context, options)) {}
  Bridge(const Bridge&) = delete;
  Bridge& operator=(const Bridge&) = delete;
  ~Bridge() { cancel(); }

  /// The strand in which MPI is called. Throws InputError after the end of the io_context.
  executor_type get_executor() const { return poller_->strand(); }

  /// Waits for a started operation. Throws InputError after the end of the io_context: the operation goes on.
  template <class Token = boost::asio::deferred_t>
  auto async_wait(Request request, Token&& token = Token()) {
    return boost::asio::async_initiate<Token, Signature>(Initiation{poller_}, token, std::move(request));
  }

  /// Starts the operation that `start()` returns in the strand, from any thread, and waits for it. What `start` throws
  /// is its outcome. One thread's operations start in the order of its calls.
  template <class Start, class Token = boost::asio::deferred_t>
    requires std::convertible_to<std::invoke_result_t<Start&>, Request>
  auto async_start(Start start, Token&& token = Token()) {
    return boost::asio::async_initiate<Token, Signature>(Initiation{poller_}, token, std::move(start));
  }

  /// Cancels all that is pending.
  void cancel() {
    poller_->in_strand([](detail::Poller& poller) { poller.cancel_all(); });
  }

 private:
  using Signature = void(std::exception_ptr);

  /// Asks the poller to end the wait, from wherever the signal is emitted.
  struct Canceller {
    Canceller(std::weak_ptr<detail::Poller> whose, std::weak_ptr<detail::Waiter> which)
        : poller(std::move(whose)), waiter(std::move(which)) {}
    void operator()(boost::asio::cancellation_type_t type) const {
      const auto alive = waiter.lock();
      const auto owner = poller.lock();
      if (alive && owner) owner->in_strand([alive, type](detail::Poller& strand) { strand.cancel(alive, type); });
    }
    std::weak_ptr<detail::Poller> poller;
    std::weak_ptr<detail::Waiter> waiter;
  };

  struct Initiation {
    using executor_type = Bridge::executor_type;
    executor_type get_executor() const { return poller->strand(); }

    template <class Handler>
    void operator()(Handler&& handler, Request request) const {
      std::shared_ptr<detail::Waiter> waiter;
      try {
        waiter = enlist(std::forward<Handler>(handler));
      } catch (...) {
        request.detach();  // else its end would poison the communicator
        throw;
      }
      waiter->request = std::move(request);
      poller->in_strand([waiter = std::move(waiter)](detail::Poller& strand) mutable {
        strand.start(std::move(waiter), [](Request&) {});
      });
    }
    template <class Handler, class Start>
    void operator()(Handler&& handler, Start start) const {
      poller->in_strand(
          [waiter = enlist(std::forward<Handler>(handler)), begin = std::move(start)](detail::Poller& strand) mutable {
            strand.start(std::move(waiter), [&begin](Request& request) { request = begin(); });
          });
    }

    template <class Handler>
    std::shared_ptr<detail::Waiter> enlist(Handler&& handler) const {
      using Waiter = detail::HandlerWaiter<std::decay_t<Handler>, executor_type>;
      const auto allocator = detail::allocator_of<Waiter>(handler);
      auto slot = boost::asio::get_associated_cancellation_slot(handler);
      std::shared_ptr<detail::Waiter> waiter =
          std::allocate_shared<Waiter>(allocator, std::forward<Handler>(handler), poller->strand());
      if (slot.is_connected()) slot.template emplace<Canceller>(poller, waiter);
      return waiter;
    }

    std::shared_ptr<detail::Poller> poller;
  };

  std::shared_ptr<detail::Poller> poller_;
};

}  // namespace kerkis::asio
