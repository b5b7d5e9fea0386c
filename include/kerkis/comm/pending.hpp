// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <kerkis/comm/checking.hpp>
#include <kerkis/comm/group.hpp>
#include <kerkis/comm/resources.hpp>

namespace kerkis::comm {

/// How far a message has got, for reports.
struct Side {
  bool under_way = true;
  std::size_t moved = 0, pieces = 1;
};
/// Those of a hand-off; what it does not have does not matter.
struct Sides {
  Side send{}, receive{};
};

/// What an operation owns until it is complete, and what it does on the way there.
class Steps : public InPieces {
 public:
  /// `several`: `next` starts more MPI operations, so that `poll` has to move it on. MPI matches the collectives on a
  /// communicator by their order, and ranks reach the later steps of one at different times: those that are called
  /// after a collective of several steps start when it is complete.
  explicit Steps(bool several = false) : several_(several) {}
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;
  virtual ~Steps() = default;

  /// MPI has completed `request`, and says `status` of it. Starts the next MPI operation in it and returns false, or
  /// finishes (unpacks what has come) and returns true. With false and MPI_REQUEST_NULL it has requests of its own
  /// under way, and is called again later (`several` is true then). What it throws poisons the communicator.
  virtual bool next(MPI_Request& request, const MPI_Status& status) = 0;

  bool several() const { return several_; }

  /// Of a hand-off.
  virtual Sides sides() const { return {}; }

  /// Of the elements that the operation reads where the caller could write them meanwhile; 0 if there are none. For the
  /// checking mode.
  virtual std::uint64_t checksum() const { return 0; }

 private:
  bool several_;
};

/// A collective that has been called, but can't start yet: its fingerprint is on the way, or one before it has to
/// finish first.
struct Deferred {
  Deferred() = default;
  Deferred(const Deferred&) = delete;
  Deferred& operator=(const Deferred&) = delete;
  virtual ~Deferred() = default;
  virtual int begin(MPI_Request* request) = 0;

  std::optional<Fingerprints> fingerprints;  ///< if anything is checked
};
template <class Begin>
struct DeferredCall final : Deferred {
  explicit DeferredCall(const Begin& f) : call(f) {}
  int begin(MPI_Request* request) override { return call(request); }
  Begin call;
};

/// An operation under way. The engine holds it, since polling moves it on without its Request. What its way touches
/// lies in the first cache line: behind a message of 32 KiB each line costs more than its instructions.
struct alignas(64) Pending {
  MPI_Request request = MPI_REQUEST_NULL;
  bool under_way = false;
  bool complete = false;
  bool broken = false;                   ///< has failed: never complete
  bool detached = false;                 ///< its Request is gone
  bool several = false;                  ///< what `steps` says
  std::uint32_t earlier = 0;             ///< operations that were here before, to tell later whether this one goes on
  std::unique_ptr<Steps> steps;          ///< null: complete with `request`
  Group* group = nullptr;                ///< kept alive by the Request
  std::unique_ptr<Deferred> deferred;    ///< null: started
  std::uint64_t checksum = 0;            ///< of what it reads, when it was called
  Pending* next_free = nullptr;          ///< for Operations
  std::chrono::milliseconds deadline{};  ///< 0: the policy's
  std::shared_ptr<Group> orphan_of;      ///< `group`, once the Request is gone
  MPI_Status status{};                   ///< of the MPI operation that came to its end last
  Operation operation;

  bool moved_by_poll() const { return under_way && !complete && (detached || deferred != nullptr || several); }
};

/// The operations of an engine: each stays where it is, and its place is used again.
class Operations {
 public:
  Operations() = default;
  Operations(Operations&&) = default;
  Operations& operator=(Operations&&) = delete;
  ~Operations() {
    for (Pending* const one : all_) delete one;
  }

  Pending& begin() {
    if (free_ == nullptr) [[unlikely]]
      make_place();
    Pending& pending = *free_;
    free_ = pending.next_free;
    pending.under_way = true;
    return pending;
  }
  void end(Pending& pending) {
    pending.request = MPI_REQUEST_NULL;
    pending.orphan_of.reset();
    pending.checksum = 0;
    ++pending.earlier;
    pending.under_way = pending.complete = pending.broken = pending.detached = pending.several = false;
    pending.next_free = free_;
    free_ = &pending;
  }

  /// Of the places, also those that are free.
  std::size_t size() const { return all_.size(); }
  Pending& operator[](std::size_t i) const { return *all_[i]; }

  /// Null if there is none.
  const Pending* first_under_way() const {
    for (const Pending* const one : all_)
      if (one->under_way) return one;
    return nullptr;
  }
  void print_unfinished(int rank) const noexcept {
    for (const Pending* const one : all_)
      if (one->under_way) print_error(message("rank ", rank, ": never finished: ", one->operation.text()));
  }

 private:
  [[gnu::noinline]] void make_place() {
    all_.reserve(all_.size() + 1);  // so that what is made has a place
    all_.push_back(free_ = new Pending);
  }

  Pending* free_ = nullptr;    // the first
  std::vector<Pending*> all_;  // owned
};

}  // namespace kerkis::comm
