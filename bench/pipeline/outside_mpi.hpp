// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <chrono>
#include <unordered_map>

/// How long the program is outside MPI, by MPI's profiling interface, and not waiting for a message: what lies between
/// two tests of one request, the first of which fails, is a wait unless anything has moved in between.
class OutsideMpi {
 public:
  static OutsideMpi& instance() {
    static OutsideMpi one;
    return one;
  }

  /// Requests tested until `begin` are not waited for, only looked at: that of the failure channel.
  void learn() { learning_ = true; }
  void begin() {
    learning_ = false;
    counting_ = true;
    outside_ = 0;
    failed_.clear();
    left_ = Clock::now();
  }
  /// Seconds since `begin`.
  double end() {
    enter();
    counting_ = false;
    return outside_;
  }

  template <class Call>
  int call(Call&& native) {
    if (!counting_) return native();
    enter();
    ++moves_;
    const int code = native();
    left_ = Clock::now();
    return code;
  }

  int test(MPI_Request* request, int* done, MPI_Status* status) {
    if (learning_) looked_at_[request] = true;
    if (!counting_ || looked_at_.contains(request)) {
      if (counting_) enter();
      const int code = PMPI_Test(request, done, status);
      if (counting_) left_ = Clock::now();
      return code;
    }
    enter();
    const auto before = failed_.find(request);
    if (before != failed_.end() && before->second.moves == moves_) outside_ = before->second.outside;
    const int code = PMPI_Test(request, done, status);
    if (*done != 0)
      ++moves_;
    else
      failed_[request] = {moves_, outside_};
    left_ = Clock::now();
    return code;
  }

 private:
  using Clock = std::chrono::steady_clock;
  struct Failed {
    long moves;
    double outside;
  };

  void enter() { outside_ += std::chrono::duration<double>(Clock::now() - left_).count(); }

  bool learning_ = false, counting_ = false;
  long moves_ = 0;
  double outside_ = 0;
  Clock::time_point left_;
  std::unordered_map<MPI_Request*, Failed> failed_;
  std::unordered_map<MPI_Request*, bool> looked_at_;
};

extern "C" {
int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  return OutsideMpi::instance().test(request, flag, status);
}
int MPI_Start(MPI_Request* request) {
  return OutsideMpi::instance().call([=] { return PMPI_Start(request); });
}
int MPI_Get_elements_x(const MPI_Status* status, MPI_Datatype type, MPI_Count* count) {
  return OutsideMpi::instance().call([=] { return PMPI_Get_elements_x(status, type, count); });
}
}
