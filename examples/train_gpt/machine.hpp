// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include <kerkis/kerkis.hpp>

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Floating-point operations per second of a large matrix product, all ranks working at once.
template <class T>
double product_speed(const kerkis::Communicator& world) {
  using Space = Kokkos::DefaultExecutionSpace;
  const Space execution;
  kerkis::device::DeviceBlas<Space> blas;
  constexpr std::int64_t n = 768;  // large enough for the BLAS to run at its best
  const auto a = kerkis::make_matrix<T, Space>("a", n, n), b = kerkis::make_matrix<T, Space>("b", n, n),
             c = kerkis::make_matrix<T, Space>("c", n, n);
  Kokkos::deep_copy(a, T(1));
  Kokkos::deep_copy(b, T(1));
  kerkis::barrier(world).wait();
  int products = 0;
  double seconds = 0;
  for (const auto start = Clock::now(); seconds < 0.25; seconds = seconds_since(start), ++products) {
    kerkis::device::gemm(execution, kerkis::device::Transpose::no, kerkis::device::Transpose::no, T(1), a, b, T(0), c,
                         &blas);
    execution.fence();
  }
  Kokkos::View<double[1], Kokkos::HostSpace> speed("speed");
  speed(0) = products * 2.0 * n * n * n / seconds;
  kerkis::all_reduce(execution, world, speed).wait();
  return speed(0);
}

/// Floating-point operations of a training step per token: six for every element of a matrix that multiplies (forward,
/// and both halves of backward), and those of causal attention.
inline double operations_per_token(const kerkis::nn::GptConfig& config) {
  const auto width = static_cast<double>(config.width), layers = static_cast<double>(config.layers);
  const double matrices = 12 * width * width * layers + width * static_cast<double>(config.vocabulary);
  return 6 * matrices + 6 * layers * width * static_cast<double>(config.context);
}
