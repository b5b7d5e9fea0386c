// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/communicator.hpp>
#include <kerkis/core/partition.hpp>
#include <kerkis/module/parameter_store.hpp>

namespace kerkis {

/// Proof that the gradients of a store are whole sums over all samples, no longer partial over an axis: what norms and
/// optimizers ask for.
class FinishedGradients {
  FinishedGradients() = default;  // kerkis: GradientReducer::finish() returns it, when all sums are done
  template <class T, class ExecutionSpace>
  friend class GradientReducer;
};

/// Sums the gradients of a store over the data axis, in buckets that start while the backward pass still runs: Li et
/// al. 2020, arXiv:2006.15704, section 3.2. Buckets are ranges of the flat gradient array, so nothing is copied.
template <class T, class ExecutionSpace = Kokkos::DefaultExecutionSpace>
class GradientReducer {
 public:
  /// `chunks`: ranges of the flat array whose backward passes run on their own, each from its end to its beginning.
  GradientReducer(Communicator data, const ParameterStore<T, ExecutionSpace>& store, std::vector<Range> chunks,
                  std::size_t bucket_bytes)
      : data_(std::move(data)), gradients_(store.gradients()) {
    const auto length = static_cast<std::int64_t>(std::max(std::size_t{1}, bucket_bytes / sizeof(T)));
    for (const Range& chunk : chunks)
      for (std::int64_t end = chunk.end; end > chunk.begin; end -= length)
        buckets_.push_back({{std::max(chunk.begin, end - length), end}, {}, false});
  }

  /// A parameter that other ranks hold too (tied weights on two pipeline stages): its gradient is summed over `sharers`
  /// as well.
  void share(Communicator sharers, const Vector<T, ExecutionSpace>& gradient) {
    shared_.push_back({std::move(sharers), gradient});
  }

  /// Says that the gradients in `range` will not change again in this step. Every data rank must say so in the same
  /// order.
  void ready(const ExecutionSpace& execution, Range range) {
    if (data_.size() == 1) return;
    for (Bucket& bucket : buckets_) {
      if (bucket.started || bucket.range.begin < range.begin || bucket.range.end > range.end) continue;
      bucket.started = true;
      bucket.request =
          all_reduce(execution, data_,
                     Kokkos::View<T*, typename ExecutionSpace::memory_space, Kokkos::MemoryUnmanaged>(
                         gradients_.data() + bucket.range.begin, static_cast<std::size_t>(bucket.range.size())));
    }
  }

  /// Starts what is left, waits for all of it, and sums what is shared. The gradients may then be read on `execution`.
  FinishedGradients finish(const ExecutionSpace& execution) {
    ready(execution, {0, static_cast<std::int64_t>(gradients_.extent(0))});
    for (Bucket& bucket : buckets_) {
      bucket.request.wait();
      bucket.started = false;
    }
    for (const auto& [sharers, gradient] : shared_) all_reduce(execution, sharers, gradient).wait();
    return {};
  }

 private:
  struct Bucket {
    Range range;
    Request request;
    bool started;
  };
  struct Shared {
    Communicator sharers;
    Vector<T, ExecutionSpace> gradient;
  };

  Communicator data_;
  Vector<T, ExecutionSpace> gradients_;
  std::vector<Bucket> buckets_;
  std::vector<Shared> shared_;
};

}  // namespace kerkis
