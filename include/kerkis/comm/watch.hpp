// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <kerkis/comm/board.hpp>

namespace kerkis::comm {

/// Where a rank's watch listens: a port (0: nowhere) at any of these IPv4 addresses, in network order.
struct WatchAddress {
  std::array<std::uint32_t, 4> hosts{};
  std::uint16_t port = 0;
  std::uint16_t unused = 0;
  std::uint32_t unused_too = 0;
};

/// What is asked for: `token` is that of the rank that is asked, which answers nobody else.
struct WatchQuestion {
  std::uint64_t token;
  std::int64_t group;
};

/// A socket that gives every transfer one second in all.
class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  Socket(Socket&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }

  static Socket tcp() { return Socket(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)); }

  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

  bool connect(std::uint32_t host, std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = host;
    if (::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return true;
    if (errno != EINPROGRESS || !ready(POLLOUT)) return false;
    int error = 0;
    socklen_t size = sizeof error;
    return getsockopt(descriptor_, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
  }

  bool write(const void* data, std::size_t bytes) {
    return transfer(bytes, POLLOUT, [&](std::size_t done) {
      return ::send(descriptor_, static_cast<const char*>(data) + done, bytes - done, MSG_NOSIGNAL);
    });
  }
  bool read(void* data, std::size_t bytes) {
    return transfer(bytes, POLLIN, [&](std::size_t done) {
      return ::recv(descriptor_, static_cast<char*>(data) + done, bytes - done, 0);
    });
  }

 private:
  using Clock = std::chrono::steady_clock;

  template <class Move>
  bool transfer(std::size_t bytes, short events, Move&& move) {
    for (std::size_t done = 0; done < bytes;) {
      const auto moved = move(done);
      if (moved > 0)
        done += static_cast<std::size_t>(moved);
      else if (moved == 0 || (errno != EAGAIN && errno != EINTR) || !ready(events))
        return false;
    }
    return true;
  }

  bool ready(short events) const {
    for (;;) {
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(limit_ - Clock::now()).count();
      if (left <= 0) return false;
      pollfd wanted{descriptor_, events, 0};
      const int found = ::poll(&wanted, 1, static_cast<int>(left));
      if (found > 0) return true;
      if (found == 0 || errno != EINTR) return false;
    }
  }

  int descriptor_ = -1;
  Clock::time_point limit_ = Clock::now() + std::chrono::seconds(1);
};

/// Answers questions for the states on a board, from a thread that never calls MPI: it works while its rank computes or
/// hangs, but not while the process is stopped.
class Watch {
 public:
  /// Listens; a port of 0 says that it can't.
  Watch() : listener_(Socket::tcp()) {
    sockaddr_in any{};
    any.sin_family = AF_INET;
    any.sin_addr.s_addr = htonl(INADDR_ANY);
    socklen_t size = sizeof any;
    const auto address = reinterpret_cast<sockaddr*>(&any);
    if (!listener_ || bind(listener_.get(), address, size) != 0 || listen(listener_.get(), 64) != 0 ||
        getsockname(listener_.get(), address, &size) != 0 || pipe2(stop_.data(), O_CLOEXEC) != 0)
      return;
    address_.port = ntohs(any.sin_port);
    find_hosts();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;
  ~Watch() {
    if (board_ != nullptr) {
      close(std::exchange(stop_[1], -1));  // ends the thread's poll
      pthread_join(thread_, nullptr);
    }
    for (const int end : stop_)
      if (end >= 0) close(end);
  }

  const WatchAddress& address() const { return address_; }

  /// Starts the thread. Signals stay with the threads of the program. Without a thread the others see no state.
  void start(const Board& board, std::uint64_t token) {
    if (address_.port == 0) return;
    board_ = &board;
    token_ = token;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const auto serve_all = [](void* self) -> void* {
      static_cast<const Watch*>(self)->serve();
      return nullptr;
    };
    if (pthread_create(&thread_, nullptr, serve_all, this) != 0) board_ = nullptr;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  /// The states on the board of the rank that listens at `address`; none if it does not answer.
  static std::vector<PeerState> ask(const WatchAddress& address, const WatchQuestion& question, std::size_t ranks) {
    for (const auto host : address.hosts) {
      if (host == 0 || address.port == 0) break;
      Socket socket = Socket::tcp();
      std::vector<PeerState> answer(ranks);
      if (socket && socket.connect(host, address.port) && socket.write(&question, sizeof question) &&
          socket.read(answer.data(), ranks * sizeof(PeerState)))
        return answer;
    }
    return {};
  }

 private:
  void find_hosts() {
    ifaddrs* list = nullptr;
    if (getifaddrs(&list) != 0) return;
    std::size_t found = 0;
    for (const ifaddrs* one = list; one != nullptr && found < address_.hosts.size(); one = one->ifa_next) {
      const unsigned wanted = IFF_UP | IFF_RUNNING, flags = one->ifa_flags & (wanted | IFF_LOOPBACK);
      if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != AF_INET || flags != wanted) continue;
      address_.hosts[found++] = reinterpret_cast<const sockaddr_in*>(one->ifa_addr)->sin_addr.s_addr;
    }
    freeifaddrs(list);
  }

  void serve() const {
    std::array<pollfd, 2> wanted{{{listener_.get(), POLLIN, 0}, {stop_[0], POLLIN, 0}}};
    for (;;) {
      if (::poll(wanted.data(), wanted.size(), -1) < 0 && errno != EINTR) return;
      if (wanted[1].revents != 0) return;
      if ((wanted[0].revents & POLLIN) == 0) continue;
      Socket asker(accept4(listener_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
      WatchQuestion question{};
      if (!asker || !asker.read(&question, sizeof question) || question.token != token_) continue;
      std::vector<PeerState> answer(board_->ranks());
      for (std::size_t rank = 0; rank < answer.size(); ++rank)
        answer[rank] = board_->read(rank, static_cast<int>(question.group));
      asker.write(answer.data(), answer.size() * sizeof(PeerState));
    }
  }

  Socket listener_;
  std::array<int, 2> stop_{-1, -1};
  WatchAddress address_;
  const Board* board_ = nullptr;  // set while the thread runs
  std::uint64_t token_ = 0;
  pthread_t thread_{};
};

}  // namespace kerkis::comm
