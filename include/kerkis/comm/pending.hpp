// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include <kerkis/comm/checking.hpp>
#include <kerkis/comm/group.hpp>
#include <kerkis/comm/resources.hpp>

namespace kerkis::comm {

/// What an operation owns until it is complete, and what it does on the way there.
class Steps {
 public:
  Steps() = default;
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;
  virtual ~Steps() = default;

  /// In memory that is used again: every operation has steps, and the general allocator costs a tenth of a small one.
  /// `owner` may be null.
  static void* operator new(std::size_t bytes, Resources* owner) { return Resources::new_piece(owner, bytes); }
  static void operator delete(void* steps, Resources*) { Resources::free_piece(steps); }
  static void* operator new(std::size_t bytes) { return Resources::new_piece(nullptr, bytes); }
  static void operator delete(void* steps) { Resources::free_piece(steps); }

  /// MPI has completed `request`. Starts the next MPI operation in it and returns false, or finishes (unpacks what has
  /// come) and returns true. With false and MPI_REQUEST_NULL it has requests of its own under way, and is called again
  /// later (`several` is true then). What it throws poisons the communicator.
  virtual bool next(MPI_Request& request) = 0;

  /// What MPI says of the operation that has come to its end, before `next`.
  virtual void came(const MPI_Status&) {}

  /// Whether `next` starts more MPI operations, so that `poll` has to move it on. MPI matches the collectives on a
  /// communicator by their order, and ranks reach the later steps of one at different times: those that are called
  /// after a collective of several steps start when it is complete.
  virtual bool several() const { return false; }

  /// Of the elements that the operation reads where the caller could write them meanwhile; 0 if there are none. For the
  /// checking mode.
  virtual std::uint64_t checksum() const { return 0; }
};

/// A collective that has been called, but can't start yet: its fingerprint is on the way, or one before it has to
/// finish first.
struct Deferred {
  Deferred() = default;
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;
  virtual ~Deferred() = default;
  virtual int begin(MPI_Request* request) = 0;

  std::unique_ptr<Fingerprints> fingerprints;  ///< null if nothing is checked
};
template <class Begin>
struct DeferredCall final : Deferred {
  explicit DeferredCall(const Begin& f) : call(f) {}
  int begin(MPI_Request* request) override { return call(request); }
  Begin call;
};

/// An operation under way. The engine holds it, since polling moves it on without its Request.
struct Pending {
  MPI_Request request = MPI_REQUEST_NULL;
  Operation operation;
  std::chrono::milliseconds deadline{};  ///< 0: the policy's
  std::unique_ptr<Steps> steps;          ///< null: complete with `request`
  bool several = false;                  ///< what `steps` says
  Group* group = nullptr;                ///< kept alive by the Request
  std::shared_ptr<Group> orphan_of;      ///< `group`, once the Request is gone
  std::unique_ptr<Deferred> deferred;    ///< null: started
  std::uint64_t checksum = 0;            ///< of what it reads, when it was called
  MPI_Status status{};                   ///< of the MPI operation that came to its end last
  bool under_way = false;
  bool complete = false;
  bool broken = false;    ///< has failed: never complete
  bool detached = false;  ///< its Request is gone
};

}  // namespace kerkis::comm
