// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/system/system_error.hpp>

#include <cstddef>
#include <exception>
#include <string>
#include <utility>

#include <kerkis/asio/bridge.hpp>
#include <kerkis/comm/all_reduce.hpp>
#include <kerkis/comm/barrier.hpp>
#include <kerkis/comm/hand_off.hpp>

namespace net = boost::asio;

namespace asio_test {

using kerkis::Communicator;
using kerkis::asio::Bridge;
using Host = Kokkos::DefaultHostExecutionSpace;
using View = Kokkos::View<int*, Kokkos::HostSpace>;

inline View filled(int value, std::size_t count = 100) {
  View view("view", count);
  Kokkos::deep_copy(view, value);
  return view;
}

inline bool all_are(const View& view, int value) {
  for (std::size_t i = 0; i < view.extent(0); ++i)
    if (view(i) != value) return false;
  return true;
}

/// "" for success, "operation_aborted" for a cancellation, else the text.
inline std::string outcome(const std::exception_ptr& error) {
  if (!error) return "";
  try {
    std::rethrow_exception(error);
  } catch (const boost::system::system_error& other) {
    return other.code() == net::error::operation_aborted ? "operation_aborted" : other.what();
  } catch (const std::exception& other) {
    return other.what();
  }
}

/// Runs the coroutine and all else on the io_context, until nothing is left; throws what the coroutine throws.
template <class Coroutine>
void run(net::io_context& io, Coroutine coroutine) {
  std::exception_ptr error;
  net::co_spawn(io, std::move(coroutine), [&](std::exception_ptr thrown) { error = std::move(thrown); });
  io.restart();
  io.run();
  if (error) std::rethrow_exception(error);
}

}  // namespace asio_test
