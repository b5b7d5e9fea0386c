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
#include <source_location>
#include <string>
#include <type_traits>

#include <kerkis/comm/host.hpp>
#include <kerkis/comm/mpi.hpp>

namespace kerkis::comm {

/// What a rank enters, and where, as others read it.
struct Site {
  std::array<char, 24> name;
  std::array<char, 32> axis;
  std::array<char, 40> file;
  std::uint32_t line;        ///< 0: the end of the communicator
  std::uint32_t collective;  ///< 1; of a hand-off 0
  std::int64_t group;        ///< the communicator's number
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
  /// Places for what a rank has entered last on each part of the root communicator, which has one of its own: of the
  /// parts that share one, the newest that has not ended has it.
  static constexpr int part_places = 62;

  /// All ranks of the host give the same `name`, which `forget_name` takes away once all have done so.
  Board(std::size_t ranks, std::size_t own, std::string name) : name_(std::move(name)), ranks_(ranks) {
    if (ranks > 1) map_shared();
    if (slots_ == nullptr) map(-1, MAP_PRIVATE | MAP_ANONYMOUS);
    if (slots_ == nullptr) return;
    mine_ = &slots_[own];
    mine_->pid.store(getpid(), std::memory_order_release);
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
    if (mine_ == nullptr) return;
    const Key key{operation.name, operation.where, group};
    const std::size_t site = key.place();
    if (!(keys_[site] == key)) [[unlikely]] {
      keys_[site] = key;
      write(site, group, operation);
    }
    mine_->milliseconds.store(host_milliseconds(), std::memory_order_relaxed);
    mine_->entered.store(operation.sequence * site_count + site, std::memory_order_release);
    if (!operation.collective) return;
    const std::size_t index = place_of(group);
    Place& place = mine_->places[index];
    const auto there = place.group.load(std::memory_order_relaxed);
    if (there < group) [[unlikely]]
      give(index, group);
    if (there <= group) place.sequence.store(operation.sequence, std::memory_order_release);
  }

  /// The communicator ends here: its place is free for another.
  void leave(int group) noexcept {
    if (mine_ == nullptr) return;
    auto& there = mine_->places[place_of(group)].group;
    if (there.load(std::memory_order_relaxed) == group) there.store(nobody, std::memory_order_release);
  }

  PeerState read(std::size_t rank, int group) const {
    PeerState state;
    if (slots_ == nullptr) return state;
    const Slot& slot = slots_[rank];
    const std::size_t index = place_of(group);
    state.process = process_state(static_cast<int>(slot.pid.load(std::memory_order_acquire)));
    if (state.process == ProcessState::unknown) return state;
    for (int attempt = 0; attempt < 1000; ++attempt) {  // the rank may have ended while it wrote
      const auto entered = slot.entered.load(std::memory_order_acquire);
      if (entered == 0) {
        state.sequence = 0;
        break;
      }
      const auto version = slot.version.load(std::memory_order_acquire);
      Words words;
      for (std::size_t i = 0; i < words.size(); ++i)
        words[i] = slot.sites[entered % site_count][i].load(std::memory_order_relaxed);
      const auto milliseconds = slot.milliseconds.load(std::memory_order_relaxed);
      const Place& place = slot.places[index];
      const auto of_group = place.group.load(std::memory_order_acquire);
      const auto on_group = static_cast<std::int64_t>(place.sequence.load(std::memory_order_acquire));
      const auto newest = slot.newest[index].load(std::memory_order_acquire);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (version % 2 != 0 || version != slot.version.load(std::memory_order_relaxed) ||
          of_group != place.group.load(std::memory_order_relaxed) ||
          entered != slot.entered.load(std::memory_order_relaxed))
        continue;
      state.entered_any = 1;
      state.last = std::bit_cast<Site>(words);
      state.last_sequence = entered / site_count;
      const bool told_by_last = state.last.group == group && state.last.collective != 0;
      if (told_by_last)
        state.sequence = static_cast<std::int64_t>(state.last_sequence);
      else if (of_group == group)
        state.sequence = on_group;
      else
        state.sequence = group > newest ? 0 : -1;
      state.age = std::max<std::int64_t>(0, host_milliseconds() - milliseconds);
      break;
    }
    return state;
  }

 private:
  static constexpr std::size_t site_count = 32;  // that are written once, not at every operation
  using Words = std::array<std::uint64_t, sizeof(Site) / sizeof(std::uint64_t)>;
  using SharedWords = std::array<std::atomic<std::uint64_t>, std::tuple_size_v<Words>>;
  static constexpr std::size_t place_count = part_places + 2;
  static constexpr std::int64_t nobody = -1;
  struct Place {
    std::atomic<std::int64_t> group;
    std::atomic<std::uint64_t> sequence;
  };
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> entered;      // last: its sequence * site_count + its place in `sites`; 0: nothing yet
    std::atomic<std::int64_t> milliseconds;  // when
    std::atomic<std::uint64_t> version;      // odd while one of `sites` is written
    std::array<Place, place_count> places;   // that of the root communicator is in the first cache line
    std::array<std::atomic<std::int64_t>, place_count> newest;  // group that each has been given to
    std::array<SharedWords, site_count> sites;
    std::atomic<std::int64_t> pid;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::is_trivially_copyable_v<Site>);

  /// What is at a place of `sites`. Names are literals, and a source_location is the address of one, so that addresses
  /// tell call sites apart: what they point to is not looked at.
  struct Key {
    using Address = std::array<std::uintptr_t, sizeof(std::source_location) / sizeof(std::uintptr_t)>;

    Key() = default;
    Key(const char* its_name, const std::source_location& its_where, int its_group)
        : name(its_name), where(std::bit_cast<Address>(its_where)), group(its_group) {}
    bool operator==(const Key&) const = default;
    std::size_t place() const {
      std::size_t sum = std::bit_cast<std::uintptr_t>(name) / 8 + static_cast<std::size_t>(group);
      for (const std::uintptr_t part : where) sum += part / 8;
      return sum % site_count;
    }

    const char* name = nullptr;
    Address where{};
    int group = 0;
  };

  /// The first two are those of the communicator's end and of the root.
  static std::size_t place_of(std::int64_t group) {
    const auto number = static_cast<std::uint32_t>(group);
    return number < 2 ? number : 2 + (number - 2) % part_places;
  }

  // Who reads the sequence 0 sees afterwards that it is no longer that of the group before.
  [[gnu::noinline]] void give(std::size_t index, std::int64_t next) {
    Place& place = mine_->places[index];
    auto& newest = mine_->newest[index];
    newest.store(std::max(newest.load(std::memory_order_relaxed), next), std::memory_order_relaxed);
    place.group.store(nobody, std::memory_order_release);
    place.sequence.store(0, std::memory_order_release);
    place.group.store(next, std::memory_order_release);
  }

  [[gnu::noinline]] void write(std::size_t place, int group, const Operation& operation) {
    Site site{};
    const char* const file = operation.where.file_name();
    const char* const slash = std::strrchr(file, '/');
    copy_cut(operation.name, site.name);
    copy_cut(operation.axis, site.axis);
    copy_cut(slash != nullptr ? slash + 1 : file, site.file);
    site.line = operation.where.line();
    site.collective = operation.collective ? 1 : 0;
    site.group = group;
    const auto words = std::bit_cast<Words>(site);
    const auto version = mine_->version.load(std::memory_order_relaxed);
    mine_->version.store(version + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    for (std::size_t i = 0; i < words.size(); ++i) mine_->sites[place][i].store(words[i], std::memory_order_relaxed);
    mine_->version.store(version + 2, std::memory_order_release);
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

  Slot* mine_ = nullptr;  // of `slots_`
  std::array<Key, site_count> keys_{};
  std::string name_;
  std::size_t ranks_;
  Slot* slots_ = nullptr;
};

}  // namespace kerkis::comm
