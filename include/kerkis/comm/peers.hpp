// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <kerkis/comm/board.hpp>
#include <kerkis/comm/host.hpp>
#include <kerkis/comm/mpi.hpp>
#include <kerkis/comm/options.hpp>
#include <kerkis/comm/watch.hpp>

namespace kerkis::comm {

/// What the ranks of a root communicator tell each other at its start, so that later each can find out about the others
/// without their help.
class Peers {
 public:
  /// Before anything else. Collective over `native`, under the deadline. Throws CommError, and InputError on every rank
  /// for a KERKIS_CHECK that means nothing, or options that differ where they may not. Sets what `options` leaves open.
  void meet(MPI_Comm native, CommunicatorOptions& options, const Construction& construction) {
    if (options.watch) watch_.emplace();
    MPI_Comm_rank(native, &rank_);
    int size = 1;
    MPI_Comm_size(native, &size);
    cards_ = std::vector<Card>(static_cast<std::size_t>(size));
    cards_[own()] = card(options);
    MPI_Request request = MPI_REQUEST_NULL;
    if (size > 1) {
      check(MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, cards_.data(), sizeof(Card), MPI_BYTE, native, &request),
            "MPI_Iallgather");
      wait(request, construction);
    }
    compare_options(construction.caller());
    find_hosts();

    const std::size_t host = host_of_[own()];
    const auto name = message("/kerkis-", cards_[first_of_[host]].token);
    board_.emplace(ranks_of_[host], slot_of_[own()], name);
    if (size > 1) {
      check(MPI_Ibarrier(native, &request), "MPI_Ibarrier");
      wait(request, construction);
      if (ranks_of_[host] > 1) board_->forget_name();
    }
    if (watch_ && first_of_.size() > 1) watch_->start(*board_, cards_[own()].token);

    const int level = cards_.front().check;
    require(level >= 0, construction.caller(), ": KERKIS_CHECK is neither 0, 1 nor strict on rank 0, but ",
            cards_.front().asked.data());
    options.check = level > 0;
    options.strict_call_sites = level > 1;
    set_by_load(options.wait, more_ranks_than_cores());
  }

  int ranks() const { return static_cast<int>(cards_.size()); }

  /// Where this rank writes what it enters.
  Board& board() { return *board_; }

  /// The states of some ranks, and where each is on the communicator with the number `group`. Other hosts are asked for
  /// some seconds together; what could not be asked by then is unknown.
  std::vector<PeerState> states(const std::vector<int>& ranks, int group) const {
    const auto start = std::chrono::steady_clock::now();
    std::vector<PeerState> result(ranks.size());
    for (std::size_t host = 0; host < first_of_.size(); ++host) {
      std::vector<PeerState> answer;
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        const auto rank = static_cast<std::size_t>(ranks[i]);
        if (host_of_[rank] != host) continue;
        if (host == host_of_[own()]) {
          result[i] = board_->read(slot_of_[rank], group);
          continue;
        }
        if (answer.empty() && std::chrono::steady_clock::now() - start < std::chrono::seconds(5))
          answer = ask(host, group);
        if (answer.empty()) answer = std::vector<PeerState>(ranks_of_[host]);
        result[i] = answer[slot_of_[rank]];
      }
    }
    return result;
  }

 private:
  struct Card {
    std::array<char, 40> kernel;
    std::array<std::uint64_t, 3> namespaces;
    Cores cores;
    std::int32_t check;                  // 1: checking, 2: call sites too, -1: nonsense
    std::array<char, 28> asked;          // KERKIS_CHECK, or its beginning, and a zero
    std::array<std::uint64_t, 5> alike;  // options that decide how messages are cut, or what is compared
    std::uint64_t token;
    WatchAddress watch;
  };

  std::size_t own() const { return static_cast<std::size_t>(rank_); }

  Card card(const CommunicatorOptions& options) const {
    Card card{};
    card.kernel = kernel_id();
    card.namespaces = namespaces();
    card.cores = cores();
    const char* const text = std::getenv("KERKIS_CHECK");
    const std::string_view asked = text != nullptr ? text : "";
    asked.copy(card.asked.data(), card.asked.size() - 1);
    card.check = check_level(options, asked);
    card.alike = {options.largest_count, options.stage ? 1U : 0U,
                  options.device_aware ? (*options.device_aware ? 1U : 0U) : 2U, options.check ? 1U : 0U,
                  options.strict_call_sites ? 1U : 0U};
    if (getrandom(&card.token, sizeof card.token, 0) != sizeof card.token)
      card.token = static_cast<std::uint64_t>(getpid()) << 32 ^ static_cast<std::uint64_t>(host_milliseconds());
    if (watch_) card.watch = watch_->address();
    return card;
  }

  static int check_level(const CommunicatorOptions& options, std::string_view asked) {
    const int own = options.strict_call_sites ? 2 : options.check ? 1 : 0;
    if (asked == "" || asked == "0") return own;
    if (asked == "1") return std::max(own, 1);
    return asked == "strict" ? 2 : -1;
  }

  void compare_options(Caller caller) const {
    constexpr const char* names[] = {"largest_count", "stage", "device_aware (2: unset)", "check", "strict_call_sites"};
    const auto& first = cards_.front().alike;
    for (std::size_t rank = 1; rank < cards_.size(); ++rank)
      for (std::size_t i = 0; i < first.size(); ++i)
        require(cards_[rank].alike[i] == first[i], caller, ": options are equal on all ranks, but ", names[i], " is ",
                first[i], " on rank 0 and ", cards_[rank].alike[i], " on rank ", rank);
  }

  /// The cards are given up if the others don't come.
  void wait(MPI_Request& request, const Construction& construction) {
    try {
      await(request, construction, true);
    } catch (const CommError&) {
      leak(std::move(cards_));
      throw;
    }
  }

  void find_hosts() {
    for (std::size_t rank = 0; rank < cards_.size(); ++rank) {
      const auto has_it = [&](std::size_t host) {
        const Card &one = cards_[first_of_[host]], &other = cards_[rank];
        return one.kernel == other.kernel && one.namespaces == other.namespaces;
      };
      std::size_t place = first_of_.size();  // most often it is the last one's
      while (place > 0 && !has_it(place - 1)) --place;
      if (place == 0) {
        first_of_.push_back(rank);
        ranks_of_.push_back(0);
        place = first_of_.size();
      }
      host_of_.push_back(place - 1);
      slot_of_.push_back(ranks_of_[place - 1]++);
    }
  }

  /// Whether the ranks that share this one's cores are more than these. The job may have others than this root's: where
  /// ranks have no cores of their own the launcher's number of them counts.
  bool more_ranks_than_cores() const {
    const Card& mine = cards_[own()];
    if (mine.cores.count == sysconf(_SC_NPROCESSORS_ONLN) && ranks_by_launcher() > mine.cores.count) return true;
    int beside = 0;
    for (const Card& card : cards_)
      if (card.kernel == mine.kernel && card.cores.set == mine.cores.set) ++beside;
    return beside > mine.cores.count;
  }

  /// The states on another host's board, of which any of its ranks can tell; two are asked, since one may be frozen.
  std::vector<PeerState> ask(std::size_t host, int group) const {
    const std::size_t ranks = ranks_of_[host];
    std::size_t asked = 0;
    for (std::size_t rank = first_of_[host]; rank < cards_.size(); ++rank) {
      const Card& card = cards_[rank];
      if (host_of_[rank] != host || card.watch.port == 0) continue;
      if (auto answer = Watch::ask(card.watch, {card.token, group}, ranks); !answer.empty()) return answer;
      if (++asked == 2) break;
    }
    PeerState silent;
    if (asked > 0) silent.process = ProcessState::stopped;
    return std::vector<PeerState>(ranks, silent);
  }

  int rank_ = 0;
  std::vector<Card> cards_;                       // by rank
  std::vector<std::size_t> host_of_, slot_of_;    // by rank
  std::vector<std::size_t> first_of_, ranks_of_;  // by host: its first rank, and how many it has
  std::optional<Board> board_;
  std::optional<Watch> watch_;  // ends before the board
};

}  // namespace kerkis::comm
