// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>

#if defined(KERKIS_CUBLAS)
#include <cublas_v2.h>

#include <memory>
#include <type_traits>

#include <kerkis/core/error.hpp>
#endif

namespace kerkis::device {

/// The matrix products of a GPU's own library, with what it keeps between calls: cuBLAS for Kokkos::Cuda, if
/// KERKIS_CUBLAS is defined, which says that the program links cuBLAS. CMake's target kerkis::kerkis does both where it
/// finds cuBLAS; without it, give -DKERKIS_CUBLAS to all files of a program, or to none. Empty for all other spaces.
template <class ExecutionSpace>
class DeviceBlas {
 public:
  static constexpr bool exists = false;  ///< whether it has products
};

#if defined(KERKIS_CUBLAS)

/// The handle is made by the first product and belongs to the device of its instance; it must die before Kokkos.
template <>
class DeviceBlas<Kokkos::Cuda> {
 public:
  static constexpr bool exists = true;

  /// C = alpha op(A) op(B) + beta C on row-major operands of device memory: op(A) is rows × depth, op(B) depth ×
  /// columns, all three at least 1; strides are the distances of rows. Enqueued on `execution`; nothing is fenced, so
  /// the buffers are in use until its work is complete. Throws Error if cuBLAS refuses.
  template <class T>
  void product(const Kokkos::Cuda& execution, bool transpose_a, bool transpose_b, int rows, int columns, int depth,
               T alpha, const T* a, int a_stride, const T* b, int b_stride, T beta, T* c, int c_stride) {
    check(cudaSetDevice(execution.cuda_device()) == cudaSuccess ? CUBLAS_STATUS_SUCCESS
                                                                : CUBLAS_STATUS_EXECUTION_FAILED);
    if (!handle_) {
      cublasHandle_t made = nullptr;
      check(cublasCreate(&made));
      handle_.reset(made);
    }
    check(cublasSetStream(handle_.get(), execution.cuda_stream()));
    // cuBLAS thinks in columns, to which these matrices are their transposes: Cᵀ = op(B)ᵀ op(A)ᵀ.
    const auto call = [&](auto* function) {
      check(function(handle_.get(), transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N,
                     columns, rows, depth, &alpha, b, b_stride, a, a_stride, &beta, c, c_stride));
    };
    if constexpr (std::is_same_v<T, float>)
      call(&cublasSgemm);
    else
      call(&cublasDgemm);
  }

 private:
  static void check(cublasStatus_t status) {
    if (status != CUBLAS_STATUS_SUCCESS)
      throw Error(message("a matrix product failed in cuBLAS: ", cublasGetStatusString(status)));
  }
  struct Destroy {
    void operator()(cublasHandle_t handle) const { cublasDestroy(handle); }
  };

  std::unique_ptr<std::remove_pointer_t<cublasHandle_t>, Destroy> handle_;
};

#endif

}  // namespace kerkis::device
