// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <list>
#include <memory>
#include <tuple>
#include <utility>

#include <kerkis/comm/group.hpp>

namespace kerkis::comm {

/// What an operation owns until it is complete, and what it does on the way there.
class Steps {
 public:
  Steps() = default;
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;
  virtual ~Steps() = default;

  /// MPI has completed `request`. Starts the next MPI operation in it and returns false, or finishes (unpacks what has
  /// come) and returns true. What it throws poisons the communicator.
  virtual bool next(MPI_Request& request) = 0;

  /// Whether `next` starts more MPI operations, so that `poll` has to move it on.
  virtual bool several() const { return false; }
};

/// Keeps the memory of managed Views alive.
template <class... Views>
class KeepAlive final : public Steps {
 public:
  explicit KeepAlive(const Views&... views) : views_(views...) {}
  bool next(MPI_Request&) override { return true; }

 private:
  std::tuple<Views...> views_;
};

/// An operation under way. The engine holds it, since polling moves it on without its Request.
struct Pending {
  MPI_Request request = MPI_REQUEST_NULL;
  Operation operation;
  std::chrono::milliseconds deadline{};  ///< 0: the policy's
  std::unique_ptr<Steps> steps;          ///< null: complete with `request`
  std::shared_ptr<Group> group;
  bool complete = false;
  bool detached = false;  ///< its Request is gone
};
using PendingList = std::list<Pending>;

}  // namespace kerkis::comm
