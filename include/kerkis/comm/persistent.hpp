// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <exception>
#include <memory>
#include <source_location>
#include <utility>

#include <kerkis/comm/request.hpp>
#include <kerkis/comm/wire.hpp>

namespace kerkis {

namespace comm {

/// What an operation does in each of its rounds.
class Rounds {
 public:
  Rounds() = default;
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;
  virtual ~Rounds() = default;

  /// Makes what goes out ready.
  virtual void begin() {}
  /// Puts what has come where the View is.
  virtual void end(const MPI_Status&) {}
  /// Starts the nonblocking operation, where MPI does not repeat it.
  virtual Request restart() { return {}; }
};

/// Of a persistent MPI request. `execution` is fenced at the start of each round.
template <Access access, class ExecutionSpace, class View>
class WireRounds : public Rounds {
 public:
  /// `on_host`: as of Wire.
  WireRounds(const ExecutionSpace& execution, const Communicator& communicator, const View& view, const char* fence,
             bool on_host = false)
      : execution_(execution), fence_(fence), wire_(use<access>(execution, communicator, view, fence, on_host)),
        run_(wire_.run(communicator)) {}

  /// What MPI moves in each round.
  const auto& run() const { return run_; }

  void begin() override {
    fence(execution_, fence_);
    if constexpr (access != Access::write) wire_.pack();
  }
  void end(const MPI_Status&) override { wire_.finish(); }

 protected:
  ExecutionSpace execution_;
  const char* fence_;
  Wire<access, ExecutionSpace, View> wire_;
  Run<typename View::non_const_value_type> run_;
};

/// Of an operation that MPI does not repeat.
template <class Start>
class Restarts final : public Rounds {
 public:
  explicit Restarts(Start start) : start_(std::move(start)) {}
  Request restart() override { return start_(); }

 private:
  Start start_;
};

}  // namespace comm

/// An operation that repeats: made once, then started any number of times, each round complete before the next begins.
/// A round packs what goes out, and unpacks what has come; it allocates nothing, except where the nonblocking operation
/// is started anew: in checking mode, and where MPI has no persistent form, for hand-offs in pieces, and for
/// collectives before MPI-4 or reduced in a fixed order.
///
/// Between `start` and the end of the round the View belongs to the operation, as with a Request; between rounds it is
/// the caller's. Each round has a number of its own, as if the operation were called anew. Deadlines, errors and the
/// destructor are a Request's; the View and the communicator live as long as this object. A round can't be cancelled or
/// detached, and `wait_any` and its kin do not take it: that is for Requests. See docs/contract.md.
class PersistentRequest {
 public:
  PersistentRequest() = default;                              ///< of nothing: it can't be started
  PersistentRequest(PersistentRequest&&) noexcept = default;  ///< leaves the other one of nothing
  /// Waits for the round of what it held, as the destructor does.
  PersistentRequest& operator=(PersistentRequest&& other) noexcept {
    PersistentRequest taken(std::move(other));
    std::swap(state_, taken.state_);
    return *this;
  }
  ~PersistentRequest() { finish(); }

  /// Begins a round. Throws InputError if one is under way, CommError if MPI fails.
  void start() {
    require(state_ != nullptr, "a persistent operation that was not made is started");
    require(!active(), state_->pending.operation.name, ": a round is started before the last one is complete");
    comm::Pending& pending = state_->pending;
    if (pending.request == MPI_REQUEST_NULL) {
      state_->restarted = state_->rounds->restart();
      return;
    }
    auto& engine = this->engine();
    if (engine.poisoned()) engine.poll();
    state_->exceptions = std::uncaught_exceptions();
    state_->rounds->begin();
    pending.complete = false;
    const int code = MPI_Start(&pending.request);
    engine.enter(*pending.group, pending.operation);  // while the message is on its way
    engine.check_operation(code, pending.operation);
    state_->active = true;
  }

  /// Whether no round is under way. Throws CommError.
  bool test() {
    if (!active()) return true;
    if (!state_->active) return state_->restarted.test();
    if (!engine().test(state_->pending)) return false;
    end_round();
    return true;
  }

  /// Returns when the round is complete, at once if there is none. Throws CommError, at the latest when the deadline
  /// has passed.
  void wait() {
    if (!active()) return;
    if (!state_->active) return state_->restarted.wait();
    engine().wait(state_->pending);
    end_round();
  }

  /// Whether a round is under way.
  bool active() const { return state_ && (state_->active || state_->restarted.pending()); }

  /// For the operations of the library: `begin(data, count, type, MPI_Request*)` makes the persistent request for what
  /// `rounds` moves.
  template <class Moved, class Begin>
  static PersistentRequest make(const Communicator& communicator, comm::Operation operation,
                                std::chrono::milliseconds deadline, std::unique_ptr<Moved> rounds, Begin begin) {
    comm::require_deadline(operation.name, deadline);
    const auto& run = rounds->run();
    operation.type = run.type.name;
    operation.order = run.type.order;
    operation.count = run.count;
    PersistentRequest result(communicator, operation, std::move(rounds));
    comm::Pending& pending = result.state_->pending;
    pending.group = communicator.state()->group.get();
    pending.operation.axis = pending.group->name.c_str();
    pending.deadline = deadline;
    pending.complete = true;
    result.engine().check_operation(begin(run.data, static_cast<int>(run.count), run.type.native, &pending.request),
                                    pending.operation);
    return result;
  }

  /// The same where `start()` begins the nonblocking operation.
  template <class Start>
  static PersistentRequest restarting(const Communicator& communicator, const char* name, Start start) {
    return {communicator, {.name = name}, std::make_unique<comm::Restarts<Start>>(std::move(start))};
  }

 private:
  struct State {
    Communicator communicator;
    std::unique_ptr<comm::Rounds> rounds;
    comm::Pending pending;  // without steps
    Request restarted;
    int exceptions = 0;  // uncaught when the round was started
    bool active = false;
  };

  PersistentRequest(const Communicator& communicator, const comm::Operation& operation,
                    std::unique_ptr<comm::Rounds> rounds)
      : state_(std::make_unique<State>()) {
    if (communicator.poisoned()) communicator.poll();
    state_->communicator = communicator;
    state_->rounds = std::move(rounds);
    state_->pending.operation = operation;
  }

  comm::Engine& engine() const { return *state_->communicator.state()->engine; }
  void end_round() {
    state_->active = false;
    state_->communicator.guard([&] { state_->rounds->end(state_->pending.status); });
  }
  void finish() noexcept {
    if (!state_) return;
    if (state_->active) {
      if (comm::mpi_is_alive() && !engine().poisoned()) {
        try {
          if (std::uncaught_exceptions() <= state_->exceptions)
            wait();
          else if (engine().advance(state_->pending))
            end_round();
        } catch (const std::exception& error) {
          comm::report_unheard("a persistent request was destroyed", error);
        }
      }
      if (state_->active) {
        engine().abandoned(state_->pending.operation);
        const Communicator last = std::move(state_->communicator);
        comm::leak(std::move(state_));  // MPI may still write to it
        return;
      }
    }
    if (state_->pending.request != MPI_REQUEST_NULL && comm::mpi_is_alive()) MPI_Request_free(&state_->pending.request);
  }

  std::unique_ptr<State> state_;
};

}  // namespace kerkis
