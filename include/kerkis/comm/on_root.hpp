// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <exception>
#include <source_location>
#include <string_view>
#include <utility>

#include <kerkis/comm/broadcast.hpp>

namespace kerkis {

/// Calls `f` on rank 0 only. If it throws, every rank throws InputError with its text, of which 1,000 bytes are kept:
/// for what one rank does for all, such as reading a file.
template <class F>
void on_root(const Communicator& communicator, F&& f, std::source_location where = std::source_location::current()) {
  // One message, so that no rank waits for a second part while another leaves with the error.
  Kokkos::View<std::int8_t[1001], Kokkos::HostSpace> text("kerkis::on_root");
  char* const words = reinterpret_cast<char*>(text.data());
  if (communicator.rank() == 0) {
    try {
      std::forward<F>(f)();
    } catch (const std::exception& error) {
      const std::string_view what = *error.what() != '\0' ? error.what() : "rank 0 failed";
      what.copy(words, text.extent(0) - 1);
    } catch (...) {
      std::string_view("rank 0 failed").copy(words, text.extent(0) - 1);
    }
  }
  broadcast(Kokkos::DefaultHostExecutionSpace(), communicator, text, {}, where).wait();
  if (*words != '\0') throw InputError(words);
}

}  // namespace kerkis
