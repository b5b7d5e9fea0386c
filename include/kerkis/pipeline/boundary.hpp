// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include <kerkis/comm/request.hpp>
#include <kerkis/core/error.hpp>
#include <kerkis/module/matrix.hpp>

namespace kerkis::detail {

/// The buffers at both ends of a stage for one microbatch, and the messages that use them.
template <class T, class ExecutionSpace>
struct Boundary {
  Matrix<T, ExecutionSpace> input, output, input_gradient, output_gradient;
  Request receive_input, receive_gradient, send_output, send_gradient;
};

/// A fixed number of things that microbatches borrow, the longest free first: a buffer whose message is still under way
/// rests longest.
template <class Thing>
class Pool {
 public:
  template <class Make>
  Pool(std::size_t count, std::size_t microbatches, Make&& make) : of_(microbatches, none) {
    for (std::size_t i = 0; i < count; ++i) things_.push_back(make()), free_.push_back(i);
  }

  bool has(int microbatch) const {
    return microbatch < static_cast<int>(of_.size()) && of_[static_cast<std::size_t>(microbatch)] != none;
  }

  /// The thing of `microbatch`; a free one becomes its own at the first call. There are as many as the schedule's table
  /// needs.
  Thing& of(int microbatch) {
    if (microbatch >= static_cast<int>(of_.size())) of_.resize(static_cast<std::size_t>(microbatch) + 1, none);
    std::size_t& index = of_[static_cast<std::size_t>(microbatch)];
    if (index == none) {
      if (lent_ == free_.size()) throw Error("pipeline: more microbatches are alive than the schedule's table says");
      index = free_[next_++ % free_.size()];
      ++lent_;
    }
    return things_[index];
  }
  void give_back(int microbatch) {
    std::size_t& index = of_[static_cast<std::size_t>(microbatch)];
    free_[(next_ + free_.size() - lent_) % free_.size()] = index;
    --lent_;
    index = none;
  }
  /// After a step was cut short.
  void reset() {
    for (std::size_t& index : of_) index = none;
    for (std::size_t i = 0; i < free_.size(); ++i) free_[i] = i;
    next_ = lent_ = 0;
  }
  std::vector<Thing>& all() { return things_; }

 private:
  static constexpr std::size_t none = static_cast<std::size_t>(-1);
  std::vector<Thing> things_;
  std::vector<std::size_t> of_, free_;  ///< free_: a ring
  std::size_t next_ = 0, lent_ = 0;
};

}  // namespace kerkis::detail
