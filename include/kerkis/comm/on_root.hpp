// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <source_location>
#include <string>
#include <utility>

#include <kerkis/comm/broadcast.hpp>

namespace kerkis {

/// Calls `f` on rank 0 only. If it throws, every rank throws InputError with its text: for what one rank does for all, such as reading
/// a file.
template <class F>
void on_root(const Communicator& communicator, F&& f, std::source_location where = std::source_location::current()) {
  const Kokkos::DefaultHostExecutionSpace host;
  std::string failure;
  if (communicator.rank() == 0) {
    try {
      std::forward<F>(f)();
    } catch (const std::exception& error) {
      failure = error.what();
      if (failure.empty()) failure = "rank 0 failed";
    } catch (...) {
      failure = "rank 0 failed";
    }
  }
  Kokkos::View<std::int64_t, Kokkos::HostSpace> length("kerkis::on_root");
  length() = static_cast<std::int64_t>(failure.size());
  broadcast(host, communicator, length, {}, where).wait();
  if (length() == 0) return;
  failure.resize(static_cast<std::size_t>(length()));
  Kokkos::View<std::int8_t*, Kokkos::HostSpace> text(reinterpret_cast<std::int8_t*>(failure.data()), failure.size());
  broadcast(host, communicator, text, {}, where).wait();
  throw InputError(failure);
}

}  // namespace kerkis
