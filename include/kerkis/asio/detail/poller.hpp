// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>
#include <sched.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/defer.hpp>
#include <boost/asio/dispatch.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/basic_waitable_timer.hpp>
#include <boost/asio/strand.hpp>
#include <boost/system/system_error.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <kerkis/asio/bridge_options.hpp>
#include <kerkis/asio/detail/context.hpp>
#include <kerkis/asio/detail/waiter.hpp>

namespace kerkis::asio::detail {

using Strand = boost::asio::strand<boost::asio::io_context::executor_type>;

/// Tests what is pending, in a strand, where all members but `strand` and `in_strand` are called: there is no other
/// lock. While something is pending, exactly one visit is queued or waits for the timer; that keeps `run()` going.
class Poller final : public ContextUser {
 public:
  Poller(boost::asio::io_context& context, BridgeOptions options)
      : options_(options), io_(std::in_place, context), context_(&boost::asio::use_service<Context>(context)) {
    context_->add(this);
  }
  Poller(const Poller&) = delete;
  Poller& operator=(const Poller&) = delete;
  ~Poller() {
    if (context_ != nullptr) context_->remove(this);
  }

  const Strand& strand() const {
    if (!io_) throw InputError("a Bridge was used after the end of its io_context");
    return io_->strand;
  }

  /// Calls `f(*this)` in the strand, or never if the context has ended.
  template <class F>
  void in_strand(F f) {
    if (io_) boost::asio::dispatch(io_->strand, [self = self(), call = std::move(f)]() mutable { call(*self); });
  }

  /// Handlers are dropped, not called.
  void context_ends() noexcept override {
    context_ = nullptr;
    io_.reset();
    const auto dropped = std::exchange(pending_, {});
    const auto kept = std::exchange(refused_, {});
  }

  /// Takes in the request that `begin()` starts.
  template <class Begin>
  void start(std::shared_ptr<Waiter> waiter, Begin&& begin) {
    try {
      check_thread();
    } catch (...) {
      return refuse(std::move(waiter), std::current_exception());
    }
    try {
      begin(waiter->request);
    } catch (...) {
      return waiter->complete(std::current_exception());
    }
    // To be visited costs as much as these tests. What starts beside others is not held up by them.
    const int tests = pending_.empty() ? std::clamp(options_.tests, 1, 16) : 1;
    for (int test = 0; test < tests; ++test)
      if (outcome(*waiter)) return;
    waiter->start = Clock::now();
    waiter->place = pending_.size();
    pending_.push_back(std::move(waiter));
    stir();
    if (!visiting_) {
      visiting_ = true;
      queue_visit();
    } else if (sleeping_) {
      io_->timer.cancel();
    }
  }

  /// Ends one wait, as far as `type` allows: only a receive can be undone, and `total` asks for no less.
  void cancel(const std::shared_ptr<Waiter>& waiter, boost::asio::cancellation_type_t type) {
    using boost::asio::cancellation_type_t;
    if (!is_pending(*waiter) || !may_call_mpi()) return;
    if (outcome(*waiter)) return remove(waiter->place);
    auto error = std::make_exception_ptr(boost::system::system_error(boost::asio::error::operation_aborted));
    try {
      const auto goes_on = cancellation_type_t::terminal | cancellation_type_t::partial;
      if (!waiter->request.cancel() && (type & goes_on) == cancellation_type_t::none) return;
    } catch (...) {
      error = std::current_exception();
    }
    waiter->request.detach();
    waiter->complete(std::move(error));
    remove(waiter->place);
  }

  void cancel_all() {
    while (!pending_.empty() && may_call_mpi())
      cancel(std::shared_ptr(pending_.back()), boost::asio::cancellation_type_t::terminal);
  }

 private:
  using Clock = Waiter::Clock;

  std::shared_ptr<Poller> self() { return std::static_pointer_cast<Poller>(shared_from_this()); }

  bool is_pending(const Waiter& waiter) const {
    return waiter.place < pending_.size() && pending_[waiter.place].get() == &waiter;
  }

  void remove(std::size_t place) {
    pending_[place].swap(pending_.back());
    pending_[place]->place = place;
    pending_.pop_back();
  }

  /// Below MPI_THREAD_SERIALIZED only the thread that initialised MPI may call it.
  void check_thread() {
    const auto here = std::this_thread::get_id();
    if (any_thread_ || here == main_thread_ || !comm::mpi_is_alive()) return;
    int level = MPI_THREAD_SINGLE, is_main = 0;
    MPI_Query_thread(&level);
    any_thread_ = level >= MPI_THREAD_SERIALIZED;
    if (any_thread_) return;
    MPI_Is_thread_main(&is_main);
    require(is_main != 0,
            "the io_context of a Bridge runs on a thread that did not initialise MPI: initialise MPI with "
            "MPI_THREAD_SERIALIZED, or call run() on the main thread alone");
    main_thread_ = here;
  }

  bool may_call_mpi() {
    try {
      check_thread();
      return true;
    } catch (...) {
      for (auto& waiter : std::exchange(pending_, {})) refuse(std::move(waiter), std::current_exception());
      return false;
    }
  }

  /// The request stays until the end of the bridge: here it can't even be given up.
  void refuse(std::shared_ptr<Waiter> waiter, std::exception_ptr error) {
    waiter->complete(std::move(error));
    if (waiter->request.pending()) refused_.push_back(std::move(waiter));
  }

  /// Tests once, and completes the handler if that ends the wait. Other things are moved on, and failures seen, at
  /// every `tests_per_poll`-th. After a peer's failure the operation has a moment to complete all the same, since the
  /// peer may have done its part before.
  bool outcome(Waiter& waiter) {
    std::exception_ptr error;
    try {
      const bool complete =
          ++waiter.tests % comm::tests_per_poll == 0 ? waiter.request.test() : waiter.request.advance();
      if (!complete) return false;
    } catch (const PeerError&) {
      const auto now = Clock::now();
      if (!waiter.failure) {
        waiter.failure = std::current_exception();
        waiter.failed = now;
      }
      if (now - waiter.failed < comm::grace) return false;
      error = waiter.failure;
    } catch (...) {
      error = std::current_exception();
    }
    waiter.complete(std::move(error));
    return true;
  }

  void visit() {
    const bool slept = std::exchange(sleeping_, false);
    if (may_call_mpi() && slice()) stir();
    if (slept || ++visits_ % 256 == 0) check_deadlines();
    visiting_ = !pending_.empty();
    if (visiting_) visit_again();
  }

  /// Tests round after round. What is found complete is handed on before another round. Says whether there was any.
  bool slice() {
    bool found = false;
    for (int tests = 0; tests < options_.tests && !pending_.empty(); ++tests) {
      if (next_ >= pending_.size()) {
        if (found) break;
        next_ = 0;
      }
      ++tests_;
      if (outcome(*pending_[next_])) {
        remove(next_);
        found = true;
      } else {
        ++next_;
      }
    }
    return found;
  }

  /// Something has begun or ended: tests are likely to find more.
  void stir() {
    tests_ = 0;
    idle_ = false;
  }

  void visit_again() {
    const auto round = pending_.size();
    if (tests_ < round || (!idle_ && tests_ < static_cast<std::size_t>(options_.spins))) return queue_visit();
    const auto now = Clock::now();
    if (!idle_) idle_since_ = now;
    idle_ = true;
    const auto waited = now - idle_since_;
    if (waited < options_.yield_for) {
      sched_yield();
      return queue_visit();
    }
    tests_ = 0;  // a whole round before the next sleep
    sleeping_ = true;
    io_->timer.expires_after(std::clamp<Clock::duration>(waited / 32, options_.sleep, options_.longest_sleep));
    io_->timer.async_wait(
        boost::asio::bind_executor(io_->strand, [self = self()](const boost::system::error_code&) { self->visit(); }));
  }

  void queue_visit() {
    boost::asio::defer(io_->strand, [self = self()] { self->visit(); });
  }

  /// The deadline of a request, and its first report, count from where its wait began.
  void check_deadlines() {
    const auto now = Clock::now();
    if (now - checked_ < std::chrono::milliseconds(1)) return;
    checked_ = now;
    for (std::size_t i = 0; i < pending_.size();) {
      Waiter& waiter = *pending_[i];
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - waiter.start);
      const bool first = !waiter.reported && waited >= waiter.request.engine().options().wait.first_report;
      waiter.reported |= first;
      try {
        waiter.request.check_deadline(waited, first);
        ++i;
      } catch (...) {
        waiter.complete(std::current_exception());
        remove(i);
      }
    }
  }

  struct Io {
    explicit Io(boost::asio::io_context& context) : strand(context.get_executor()), timer(context) {}
    Strand strand;
    boost::asio::basic_waitable_timer<Clock, boost::asio::wait_traits<Clock>, boost::asio::io_context::executor_type>
        timer;
  };

  BridgeOptions options_;
  std::optional<Io> io_;
  Context* context_;
  std::vector<std::shared_ptr<Waiter>> pending_;
  std::vector<std::shared_ptr<Waiter>> refused_;
  std::size_t next_ = 0;   // to be tested
  std::size_t tests_ = 0;  // since something began, ended or the timer expired
  bool visiting_ = false, sleeping_ = false, idle_ = false;
  Clock::time_point idle_since_{}, checked_{};
  unsigned visits_ = 0;
  bool any_thread_ = false;
  std::thread::id main_thread_;
};

}  // namespace kerkis::asio::detail
