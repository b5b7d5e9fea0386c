// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <kerkis/device/device_blas.hpp>
#include <kerkis/module/matrix.hpp>

namespace kerkis {

/// Scratch memory for the time of one call: a stack of blocks that grows in the first step and allocates nothing after.
///
///     auto scope = context.workspace.scope();
///     auto hidden = scope.template take<T>(rows, columns);   // unmanaged, uninitialised, valid until `scope` ends
///
/// Kernels on the context's execution-space instance run in order, so memory may be reused without a fence.
/// Beside it, the BLAS of the execution space, which serves the same instance and has scratch memory of its own.
template <class ExecutionSpace>
class Workspace {
  using Bytes = Kokkos::View<std::byte*, typename ExecutionSpace::memory_space>;

 public:
  /// What has been taken from the workspace since it was made; it gives all of it back.
  class Scope {
   public:
    /// Begins, as `Workspace::scope`.
    explicit Scope(Workspace& workspace) : workspace_(workspace), block_(workspace.block_), used_(workspace.used_) {}
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;
    ~Scope() {
      workspace_.block_ = block_;
      workspace_.used_ = used_;
    }
    /// An unmanaged matrix without values, valid until the scope ends.
    template <class T>
    Matrix<T, ExecutionSpace> take(std::int64_t rows, std::int64_t columns) {
      const auto bytes = static_cast<std::size_t>(rows * columns) * sizeof(T);
      return Matrix<T, ExecutionSpace>(reinterpret_cast<T*>(workspace_.allocate(bytes)), static_cast<std::size_t>(rows),
                                       static_cast<std::size_t>(columns));
    }

   private:
    Workspace& workspace_;
    std::size_t block_, used_;
  };

  /// Begins a scope. Scopes of one workspace, which outlives them, end in the opposite order.
  Scope scope() { return Scope(*this); }
  /// For products on a GPU.
  device::DeviceBlas<ExecutionSpace>& blas() { return blas_; }

 private:
  std::byte* allocate(std::size_t bytes) {
    constexpr std::size_t alignment = 128;
    bytes = (bytes + alignment - 1) / alignment * alignment;
    while (block_ < blocks_.size() && used_ + bytes > blocks_[block_].extent(0)) {
      ++block_;
      used_ = 0;
    }
    if (block_ == blocks_.size())
      blocks_.emplace_back(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("kerkis::workspace")),
                           std::max(bytes, std::size_t{1} << 22));
    std::byte* start = blocks_[block_].data() + used_;
    used_ += bytes;
    return start;
  }

  std::vector<Bytes> blocks_;
  std::size_t block_ = 0, used_ = 0;
  device::DeviceBlas<ExecutionSpace> blas_;
};

}  // namespace kerkis
