// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <exception>
#include <memory>
#include <source_location>
#include <string>
#include <utility>

#include <kerkis/comm/engine.hpp>

namespace kerkis {

/// A group of ranks with a name ("data") and a private MPI communicator. Copies are cheap handles of the same group;
/// requests keep it alive. The end of the last handle of a root communicator and its parts is collective, as
/// MPI_Comm_free is, and waits for the other ranks under the deadline. The default one is the group of this rank alone,
/// which never calls MPI.
///
/// Thread level: MPI_THREAD_FUNNELED is enough; calls come from one thread at a time.
class Communicator {
 public:
  Communicator() = default;

  /// Duplicates `user` (collective over it, under the deadline) and starts a progress engine: a root communicator.
  /// `user` stays the caller's. Throws CommError.
  explicit Communicator(MPI_Comm user, std::string name = "world", CommunicatorOptions options = {}) {
    require(comm::mpi_is_alive(), "a Communicator needs MPI: MPI_Init has not been called, or MPI_Finalize has");
    auto engine = std::make_shared<comm::Engine>(user, options);
    state_ = std::make_shared<State>(std::move(engine), comm::duplicate(user, options.wait), std::move(name), true);
  }

  int rank() const { return state_ ? state_->group->rank : 0; }
  int size() const { return state_ ? state_->group->size : 1; }
  /// The MPI communicator; MPI_COMM_SELF for the default one.
  MPI_Comm native() const { return state_ ? state_->group->native : MPI_COMM_SELF; }
  const char* name() const { return state_ ? state_->group->name.c_str() : "self"; }

  /// The ranks of the same `color`, ordered by `key`, as MPI_Comm_split: collective. It shares this one's progress
  /// engine. The call that MPI offers blocks without a deadline, so all ranks meet first in a barrier that has one.
  Communicator split(int color, int key, std::string name,
                     std::source_location where = std::source_location::current()) const {
    if (!state_) return {};
    meet(where);
    MPI_Comm part = MPI_COMM_NULL;
    comm::check(MPI_Comm_split(native(), color, key, &part), "MPI_Comm_split", rank());
    Communicator result;
    result.state_ = std::make_shared<State>(state_->engine, part, std::move(name), false);
    return result;
  }

  /// Lets pending communication move on. Throws CommError if a rank has announced a failure.
  void poll() const {
    if (state_) state_->engine->poll();
  }

  /// Whether a failure has been announced, here or elsewhere: nothing can be communicated any more, and buffers of
  /// pending operations must not be freed.
  bool poisoned() const { return state_ && state_->engine->poisoned(); }

  /// Tells all ranks of the root communicator that this one fails, so that their waits throw `text` instead of timing
  /// out.
  void announce(std::string_view text) const noexcept {
    if (state_) state_->engine->announce(text);
  }

  /// Calls `f` and announces what it throws.
  template <class F>
  decltype(auto) guard(F&& f) const {
    try {
      return std::forward<F>(f)();
    } catch (const std::exception& error) {
      announce(error.what());
      throw;
    }
  }

  /// For the operations of the library.
  struct State {
    State(std::shared_ptr<comm::Engine> shared, MPI_Comm native, std::string name, bool is_root)
        : engine(std::move(shared)), group(std::make_shared<comm::Group>(native, std::move(name), engine->failures())),
          root(is_root), exceptions(std::uncaught_exceptions()) {}
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
      if (root && std::uncaught_exceptions() > exceptions) engine->announce("left its communicator by an exception");
    }

    std::shared_ptr<comm::Engine> engine;
    std::shared_ptr<comm::Group> group;
    bool root;
    int exceptions;
  };
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  void meet(const std::source_location& where) const {
    MPI_Request request = MPI_REQUEST_NULL;
    comm::check(MPI_Ibarrier(native(), &request), "MPI_Ibarrier", rank());
    state_->engine->wait(request,
                         {.name = "split", .where = where, .axis = name(), .sequence = ++state_->group->sequence});
  }

  std::shared_ptr<State> state_;
};

}  // namespace kerkis
