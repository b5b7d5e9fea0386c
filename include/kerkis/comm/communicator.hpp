// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <exception>
#include <limits>
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
/// Thread level: MPI_THREAD_FUNNELED is enough; calls come from one thread at a time. See docs/contract.md for failures
/// and the end.
class Communicator {
 public:
  Communicator() = default;

  /// Duplicates `user` (collective over it, under the deadline) and starts a progress engine: a root communicator.
  /// `user` stays the caller's; while it is duplicated MPI returns its errors. Throws InputError without MPI, on a
  /// thread that MPI's level does not allow, for MPI_COMM_NULL and intercommunicators, for options that make no sense
  /// (`largest_count`, times of the WaitPolicy, KERKIS_CHECK), and on all ranks if they differ where they may not;
  /// CommError if MPI fails or ranks do not come.
  explicit Communicator(MPI_Comm user, std::string name = "world", CommunicatorOptions options = {},
                        std::source_location where = std::source_location::current()) {
    const comm::Caller caller{"Communicator", where};
    require(comm::mpi_is_alive(), caller, ": it needs MPI, but MPI_Init has not been called, or MPI_Finalize has");
    require(user != MPI_COMM_NULL, caller, ": MPI_COMM_NULL, of which this rank is no member");
    const auto why = comm::why_no_mpi();
    require(why.empty(), caller, ": a thread that did not initialise MPI makes '", name, "', but ", why);
    int between_groups = 0;
    comm::check(MPI_Comm_test_inter(user, &between_groups), "MPI_Comm_test_inter");
    require(between_groups == 0, caller,
            ": it takes no intercommunicator; MPI_Intercomm_merge makes one group of two");
    constexpr std::size_t most = std::numeric_limits<int>::max();
    require(options.largest_count > 0 && options.largest_count <= most, caller, ": largest_count is ",
            options.largest_count, ", none of 1 to ", most);
    comm::check_policy(caller, options.wait);
    const comm::Construction construction(user, std::move(name), options.wait, where);
    std::shared_ptr<comm::Engine> engine(new comm::Engine(user, options, construction));
    state_ = make(std::move(engine), user, construction, 1, true);
  }

  /// 0 of 1 for the default one, which needs no MPI.
  int rank() const { return state_ ? state_->group->rank : 0; }
  /// The number of ranks; 1 for the default one.
  int size() const { return state_ ? state_->group->size : 1; }
  /// The MPI communicator; MPI_COMM_SELF for the default one.
  MPI_Comm native() const { return state_ ? state_->group->native : MPI_COMM_SELF; }
  /// Those of the root communicator; the default ones for the default communicator.
  CommunicatorOptions options() const { return state_ ? state_->engine->options() : CommunicatorOptions(); }
  /// For messages: "self" for the default one. Lives as long as the group.
  const char* name() const { return state_ ? state_->group->name.c_str() : "self"; }

  /// The ranks of the same `color` (0 or more), ordered by `key`, as MPI_Comm_split: collective. It shares this one's
  /// progress engine. The call that MPI offers blocks without a deadline, so all ranks meet first in one that has it.
  Communicator split(int color, int key, std::string name,
                     std::source_location where = std::source_location::current()) const {
    require(color >= 0, comm::Caller{"split", where}, ": color ", color,
            " is negative; every rank is in a part: one that needs none takes a color of its own");
    if (!state_) return {};
    const int number = agree_on_number(where);
    return state_->engine->guard([&] {
      MPI_Comm part = MPI_COMM_NULL;
      if (const int code = MPI_Comm_split(native(), color, key, &part); code != MPI_SUCCESS)
        throw comm::failure(comm::mpi_text(code, message("split of '", this->name(), "' to make '", name,
                                                         "', called at ", call_site(where), ": MPI_Comm_split")) +
                                comm::limit_of_mpich,
                            {.name = "split", .where = where, .axis = this->name()}, state_->engine->rank(),
                            comm::mpi_class(code));
      Communicator result;
      result.state_ = make(state_->engine, part, {part, std::move(name), options().wait, where}, number, false);
      return result;
    });
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
    if (!state_) return std::forward<F>(f)();
    return state_->engine->guard(std::forward<F>(f));
  }

  /// For the operations of the library.
  struct State {
    /// `is_root`: it is not made by `split`.
    State(std::shared_ptr<comm::Engine> shared, std::shared_ptr<comm::Group> its_group, bool is_root)
        : engine(std::move(shared)), group(std::move(its_group)), root(is_root),
          exceptions(std::uncaught_exceptions()) {}
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
      const bool last = root || engine.use_count() == 1;
      if (last && std::uncaught_exceptions() > exceptions) engine->announce("left its communicator by an exception");
    }

    std::shared_ptr<comm::Engine> engine;  ///< one for a root communicator and all its parts
    std::shared_ptr<comm::Group> group;    ///< its ranks and MPI communicators
    bool root;                             ///< made from an MPI communicator, not by `split`
    int exceptions;  ///< uncaught when it was made: a root, or a last part, that ends under more tells the other ranks
  };
  /// Null for the default communicator.
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  /// All ranks meet, under the deadline, and agree on a number for what they make. They meet twice: one that gave up
  /// in the first meeting does not come to the second, which another one that came late to the first waits for.
  int agree_on_number(const std::source_location& where) const {
    auto& engine = *state_->engine;
    auto* const agreement = new Agreement(engine, native());
    auto& pending =
        engine.start(state_->group, {.name = "split", .where = where}, {}, std::unique_ptr<comm::Steps>(agreement),
                     [number = &agreement->number, native = native()](MPI_Request* request) {
                       return MPI_Iallreduce(MPI_IN_PLACE, number, 1, MPI_INT, MPI_MAX, native, request);
                     });
    pending.orphan_of = state_->group;
    engine.wait(pending);
    engine.remove(pending);
    engine.poll();
    return engine.next_number() - 1;
  }

  struct Agreement final : comm::Steps {
    Agreement(comm::Engine& its_engine, MPI_Comm its_native)
        : Steps(true), engine(its_engine), native(its_native), number(its_engine.next_number()) {}
    bool next(MPI_Request& request, const MPI_Status&) override {
      engine.take_number(number);
      if (std::exchange(met_twice, true)) return true;
      comm::check(MPI_Ibarrier(native, &request), "MPI_Ibarrier", engine.rank());
      return false;
    }
    comm::Engine& engine;
    MPI_Comm native;
    int number;
    bool met_twice = false;
  };

  /// `native` is duplicated for a root communicator, else taken over.
  static std::shared_ptr<State> make(std::shared_ptr<comm::Engine> engine, MPI_Comm native,
                                     const comm::Construction& construction, int number, bool root) {
    return engine->guard([&] {
      if (root) native = comm::duplicate(native, construction, true);
      const bool checks = engine->options().check;
      const MPI_Comm fingerprints = checks ? comm::duplicate(native, construction, true) : MPI_COMM_NULL;
      std::shared_ptr<comm::Group> group(
          new comm::Group(native, fingerprints, construction.name, number, engine->failures(), engine->board()));
      if (root) engine->keep(group);
      return std::make_shared<State>(engine, std::move(group), root);
    });
  }

  std::shared_ptr<State> state_;
};

}  // namespace kerkis
