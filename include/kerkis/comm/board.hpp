// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>

#include <kerkis/comm/host.hpp>
#include <kerkis/comm/mpi.hpp>

namespace kerkis::comm {

/// What a rank enters, and where, as others read it: texts are cut to what fits.
struct Site {
  std::array<char, 24> name, axis;
  std::array<char, 40> file;
  std::uint64_t line;  ///< 0: the end of the communicator
  std::int64_t group;  ///< the communicator's number
};

/// What can be known of a rank without its help.
struct PeerState {
  ProcessState process = ProcessState::unknown;
  std::int32_t entered_any = 0;
  std::int64_t sequence = -1;  ///< of the last collective that it entered on the communicator asked about; -1: unknown
  Site last{};                 ///< that it entered
  std::uint64_t last_sequence = 0;
  std::int64_t age = 0;  ///< milliseconds since then
};

inline std::int64_t host_milliseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);  // a few milliseconds coarse, a few nanoseconds dear
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

/// Where each rank of a host writes what it enters, and the others read it when they wait too long: a piece of POSIX
/// shared memory per root communicator. Writing never waits for anything. Where shared memory is not to be had, a rank
/// sees its own state only.
class Board {
 public:
  /// For what a rank has entered last on each communicator: of those that share a place, the newest has it.
  static constexpr int place_count = 64;

  /// All ranks of the host give the same `name`, which `forget_name` takes away once all have done so.
  Board(std::size_t ranks, std::size_t own, std::string name) : name_(std::move(name)), ranks_(ranks), own_(own) {
    if (ranks > 1) map_shared();
    if (slots_ == nullptr) map(-1, MAP_PRIVATE | MAP_ANONYMOUS);
    if (slots_ != nullptr) slots_[own_].pid.store(getpid(), std::memory_order_release);
  }
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;
  ~Board() {
    if (slots_ != nullptr) munmap(slots_, bytes());
  }

  void forget_name() const { shm_unlink(name_.c_str()); }

  std::size_t ranks() const { return ranks_; }

  /// `group` numbers the communicator, in one way for the life of the board: a newer one has a larger number.
  void enter(int group, const Operation& operation) noexcept {
    if (slots_ == nullptr) return;
    Slot& slot = slots_[own_];
    const Key key{operation.name, operation.where.file_name(), operation.where.line(), group};
    const std::size_t site = key.place();
    const auto version = slot.version.load(std::memory_order_relaxed);
    slot.version.store(version + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    if (!(keys_[site] == key)) {
      keys_[site] = key;
      write(slot.sites[site], group, operation);
    }
    slot.site.store(site, std::memory_order_relaxed);
    slot.sequence.store(operation.sequence, std::memory_order_relaxed);
    slot.milliseconds.store(host_milliseconds(), std::memory_order_relaxed);
    Place& place = slot.places[place_of(group)];
    if (operation.collective && group >= place.group.load(std::memory_order_relaxed)) {
      place.group.store(group, std::memory_order_relaxed);
      place.sequence.store(operation.sequence, std::memory_order_relaxed);
    }
    slot.version.store(version + 2, std::memory_order_release);
  }

  PeerState read(std::size_t rank, int group) const {
    PeerState state;
    if (slots_ == nullptr) return state;
    const Slot& slot = slots_[rank];
    state.process = process_state(static_cast<int>(slot.pid.load(std::memory_order_acquire)));
    if (state.process == ProcessState::unknown) return state;
    for (int attempt = 0; attempt < 1000; ++attempt) {  // the rank may have ended while it wrote
      const auto version = slot.version.load(std::memory_order_acquire);
      if (version == 0) {  // it has entered nothing
        state.sequence = 0;
        break;
      }
      const auto site = slot.site.load(std::memory_order_relaxed) % site_count;
      Words words;
      for (std::size_t i = 0; i < words.size(); ++i) words[i] = slot.sites[site][i].load(std::memory_order_relaxed);
      const auto sequence = slot.sequence.load(std::memory_order_relaxed);
      const auto milliseconds = slot.milliseconds.load(std::memory_order_relaxed);
      const Place& place = slot.places[place_of(group)];
      const auto of_group = place.group.load(std::memory_order_relaxed);
      const auto on_group = static_cast<std::int64_t>(place.sequence.load(std::memory_order_relaxed));
      std::atomic_thread_fence(std::memory_order_acquire);
      if (version % 2 != 0 || version != slot.version.load(std::memory_order_relaxed)) continue;
      state.entered_any = 1;
      state.last = std::bit_cast<Site>(words);
      state.last_sequence = sequence;
      state.sequence = of_group == group ? on_group : of_group < group ? 0 : -1;
      state.age = std::max<std::int64_t>(0, host_milliseconds() - milliseconds);
      break;
    }
    return state;
  }

 private:
  static constexpr std::size_t site_count = 32;  // that are written once, not at every operation
  using Words = std::array<std::uint64_t, sizeof(Site) / sizeof(std::uint64_t)>;
  using SharedWords = std::array<std::atomic<std::uint64_t>, std::tuple_size_v<Words>>;
  struct Place {
    std::atomic<std::int64_t> group;
    std::atomic<std::uint64_t> sequence;
  };
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> version;  // odd while the others are written
    std::atomic<std::uint64_t> site, sequence;
    std::atomic<std::int64_t> milliseconds;
    std::array<Place, place_count> places;  // that of the root communicator is in the first cache line
    std::array<SharedWords, site_count> sites;
    std::atomic<std::int64_t> pid;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::is_trivially_copyable_v<Site>);

  /// What is at a place of `sites`: names and files are literals, so that their addresses tell them apart.
  struct Key {
    const char* name = nullptr;
    const char* file = nullptr;
    std::uint_least32_t line = 0;
    int group = 0;

    bool operator==(const Key&) const = default;
    std::size_t place() const {
      return (std::hash<const char*>()(name) / 8 + std::hash<const char*>()(file) / 8 + line * 7 +
              static_cast<std::size_t>(group)) %
             site_count;
    }
  };

  static std::size_t place_of(std::int64_t group) { return static_cast<std::uint64_t>(group) % place_count; }

  static void write(SharedWords& to, int group, const Operation& operation) {
    Site site{};
    const char* const file = operation.where.file_name();
    const char* const slash = std::strrchr(file, '/');
    copy(operation.name, site.name);
    copy(operation.axis, site.axis);
    copy(slash != nullptr ? slash + 1 : file, site.file);
    site.line = operation.where.line();
    site.group = group;
    const auto words = std::bit_cast<Words>(site);
    for (std::size_t i = 0; i < words.size(); ++i) to[i].store(words[i], std::memory_order_relaxed);
  }

  template <std::size_t size>
  static void copy(const char* text, std::array<char, size>& to) {
    std::memcpy(to.data(), text, std::min(std::strlen(text), size - 1));
  }

  std::size_t bytes() const { return ranks_ * sizeof(Slot); }

  void map(int file, int flags) {
    void* const memory = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, flags, file, 0);
    if (memory != MAP_FAILED) slots_ = static_cast<Slot*>(memory);  // of zeros
  }

  void map_shared() {
    const int file = shm_open(name_.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (file < 0) return;
    // The memory is claimed here: a full file system would be a SIGBUS later.
    if (posix_fallocate(file, 0, static_cast<off_t>(bytes())) == 0) map(file, MAP_SHARED);
    close(file);
  }

  std::string name_;
  std::size_t ranks_, own_;
  Slot* slots_ = nullptr;
  std::array<Key, site_count> keys_{};
};

}  // namespace kerkis::comm
