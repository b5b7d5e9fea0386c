// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstdint>
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

/// A persistent operation. It holds no communicator, since a round may be all that keeps it.
struct Repeated {
  Repeated(const Operation& its_operation, std::chrono::milliseconds its_deadline, std::unique_ptr<Rounds> its_rounds)
      : operation(its_operation), deadline(its_deadline), rounds(std::move(its_rounds)) {}
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;
  ~Repeated() {
    if (request != MPI_REQUEST_NULL && mpi_is_alive()) MPI_Request_free(&request);
  }

  Operation operation;
  std::chrono::milliseconds deadline;
  std::unique_ptr<Rounds> rounds;
  MPI_Request request = MPI_REQUEST_NULL;  ///< inactive between rounds; null: MPI does not repeat it
};

/// One of its rounds.
class Round final : public Steps {
 public:
  explicit Round(Repeated& what) : what_(what) {}
  bool next(MPI_Request&, const MPI_Status& status) override {
    what_.rounds->end(status);
    return true;
  }
  /// Until its end, or for ever: nobody else has `what` any more.
  void keep(std::unique_ptr<Repeated> what) { kept_ = std::move(what); }

 private:
  Repeated& what_;
  std::unique_ptr<Repeated> kept_;
};

/// Whether MPI itself repeats an operation of one piece. The checking mode looks at every round, and so starts each
/// anew, as what MPI does not repeat.
inline bool repeats(const Communicator& communicator, bool in_one_piece) {
  return in_one_piece && communicator.size() > 1 && !communicator.state()->engine->options().check;
}

}  // namespace comm

/// An operation that repeats: made once, then started any number of times. `start` returns a Request for the round, for
/// all that a Request is good for: `wait_any` and its kin, `cancel`, `detach`, deadlines. Each round is complete before
/// the next begins, and has a number of its own, as if the operation were called anew. From `start` to the end of the
/// round the View belongs to the operation; between rounds it is the caller's.
///
/// The View and the communicator live as long as this object and its round. A round goes on without this object.
///
/// A round packs what goes out, and unpacks what has come; it allocates nothing, except where the nonblocking operation
/// is started anew: in checking mode, and where MPI has no persistent form, for hand-offs in pieces, and for
/// collectives before MPI-4, over one rank, in pieces, or reduced in a fixed order. See docs/contract.md.
class PersistentRequest {
 public:
  PersistentRequest() = default;                              ///< of nothing: it can't be started
  PersistentRequest(PersistentRequest&&) noexcept = default;  ///< leaves the other one of nothing
  PersistentRequest& operator=(PersistentRequest&& other) noexcept {
    PersistentRequest taken(std::move(other));
    std::swap(communicator_, taken.communicator_);
    std::swap(what_, taken.what_);
    std::swap(last_, taken.last_);
    std::swap(earlier_, taken.earlier_);
    std::swap(round_, taken.round_);
    return *this;
  }
  ~PersistentRequest() {
    if (what_ != nullptr && round_ != nullptr && under_way()) round_->keep(std::move(what_));
  }

  /// Begins a round. Throws InputError if one is under way, which goes on; CommError if MPI fails.
  [[nodiscard("kerkis: a round whose Request is dropped is waited for at once")]] Request start(
      std::source_location where = std::source_location::current()) {
    const comm::Caller caller{"start", where};
    require(what_ != nullptr, caller, ": the persistent operation was not made, or has been moved away");
    if (communicator_.poisoned()) communicator_.poll();
    require(!under_way(), caller, ": the last round of ", what_->operation.caller(), " is not complete");
    Request round = what_->request == MPI_REQUEST_NULL ? what_->rounds->restart() : begin_round();
    last_ = round.operation();
    if (last_ != nullptr) earlier_ = last_->earlier;
    return round;
  }

  /// For the operations of the library: `init(data, count, type, MPI_Request*)` makes the persistent request for what
  /// `rounds` moves, and returns the MPI code.
  template <class Moved, class Init>
  static PersistentRequest make(const Communicator& communicator, comm::Operation operation,
                                std::chrono::milliseconds deadline, std::unique_ptr<Moved> rounds, const Init& init) {
    const auto& run = rounds->run();
    operation.type = run.type.name;
    operation.order = run.type.order;
    operation.count = run.count;
    operation.axis = communicator.name();
    PersistentRequest result(communicator, operation, deadline, std::move(rounds));
    communicator.state()->engine->check_operation(
        init(run.data, static_cast<int>(run.count), run.type.native, &result.what_->request), operation);
    return result;
  }

  /// The same where `start()` begins the nonblocking operation.
  template <class Start>
  static PersistentRequest restarting(const Communicator& communicator, comm::Caller caller, Start start) {
    return {communicator,
            {.name = caller.name, .where = caller.where},
            {},
            std::make_unique<comm::Restarts<Start>>(std::move(start))};
  }

 private:
  PersistentRequest(const Communicator& communicator, const comm::Operation& operation,
                    std::chrono::milliseconds deadline, std::unique_ptr<comm::Rounds> rounds)
      : communicator_(communicator), what_(std::make_unique<comm::Repeated>(operation, deadline, std::move(rounds))) {
    if (communicator.poisoned()) communicator.poll();
  }

  bool under_way() const { return last_ != nullptr && last_->earlier == earlier_ && !last_->complete; }

  Request begin_round() {
    what_->rounds->begin();
    round_ = new (comm::resources(communicator_)) comm::Round(*what_);
    return Request::start(communicator_, what_->operation, what_->deadline, std::unique_ptr<comm::Steps>(round_),
                          [what = what_.get()](MPI_Request* request) {
                            const int code = MPI_Start(&what->request);
                            *request = what->request;
                            return code;
                          });
  }

  Communicator communicator_;  // outlives the rest
  std::unique_ptr<comm::Repeated> what_;
  const comm::Pending* last_ = nullptr;  // the place of the last round
  std::uint32_t earlier_ = 0;            // as it was then
  comm::Round* round_ = nullptr;         // while that is under way; null: started anew
};

}  // namespace kerkis
