// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <kerkis/comm/group.hpp>
#include <kerkis/comm/mpi.hpp>
#include <kerkis/comm/pair_counts.hpp>

namespace kerkis::comm {

/// Of some bytes, never 0; fast, and enough to see that they have changed: four lanes of multiply and rotate.
inline std::uint64_t checksum_of(const void* data, std::size_t bytes) {
  const auto* from = static_cast<const unsigned char*>(data);
  std::array<std::uint64_t, 4> lanes{bytes, 1, 2, 3};
  const auto mix = [](std::uint64_t lane, std::uint64_t word) {
    return std::rotl((lane ^ word) * 0x9E3779B97F4A7C15u, 29);
  };
  std::array<std::uint64_t, 4> words;
  for (; bytes >= sizeof words; bytes -= sizeof words, from += sizeof words) {
    std::memcpy(words.data(), from, sizeof words);
    for (std::size_t i = 0; i < words.size(); ++i) lanes[i] = mix(lanes[i], words[i]);
  }
  words = {};
  if (bytes > 0) std::memcpy(words.data(), from, bytes);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < words.size(); ++i) sum = mix(sum, mix(lanes[i], words[i]));
  return sum | 1;
}

/// What all ranks of a communicator must agree on when they enter a collective.
struct Fingerprint {
  std::array<char, 24> name{}, order{};
  std::array<char, 40> file{}, counts{}, type{}, reduction{};
  std::uint32_t line = 0, column = 0;
  std::uint64_t count = 0, shards = 0, sequence = 0;
  std::uint64_t whole_names = 0;  ///< a checksum of the names of the type and the reduction, which may be cut
  std::uint64_t all_counts = 0;   ///< a checksum of the counts of blocks, of which `counts` shows the first; 0: none
  std::int32_t root = -1, equal_counts = 0;

  Fingerprint() = default;
  Fingerprint(const Operation& operation, int ranks)
      : line(operation.where.line()), column(operation.where.column()), count(operation.count),
        shards(operation.shards), sequence(operation.sequence), root(operation.root),
        equal_counts(operation.equal_counts ? 1 : 0) {
    const std::string_view path = operation.where.file_name();
    copy_cut(operation.name, name);
    copy_end(operation.type, type);
    copy_end(operation.reduction, reduction);
    copy_cut(operation.order, order);
    const std::string names = message(operation.type, "\n", operation.reduction);
    whole_names = checksum_of(names.data(), names.size());
    copy_cut(path.substr(path.rfind('/') + 1), file);
    if (operation.begins == nullptr) return;
    all_counts = checksum_of(operation.begins, (static_cast<std::size_t>(ranks) + 1) * sizeof(std::size_t));
    std::string words;
    for (int rank = 0; rank < ranks && words.size() < counts.size(); ++rank)
      words += message(rank > 0 ? ", " : "", operation.begins[rank + 1] - operation.begins[rank]);
    if (words.size() >= counts.size()) words.replace(words.rfind(", ", counts.size() - 6) + 2, words.npos, "...");
    copy_cut(words, counts);
  }

  bool agrees_with(const Fingerprint& other, bool call_sites) const {
    return name == other.name && whole_names == other.whole_names && shards == other.shards && root == other.root &&
           sequence == other.sequence && equal_counts == other.equal_counts && all_counts == other.all_counts &&
           (equal_counts == 0 || count == other.count) &&
           (order[0] == 0 || other.order[0] == 0 || order == other.order) &&
           (!call_sites || (line == other.line && column == other.column && file == other.file));
  }

  /// "all_reduce (sum) of 4 float at a.cpp:10", with the column if that is asked for
  std::string text(bool with_column) const {
    std::string words = name.data();
    if (reduction[0] != '\0') words += message(" (", reduction.data(), shards > 0 ? ", in order of " : ")");
    if (shards > 0) words += message(shards, shards == 1 ? " shard)" : " shards)");
    if (type[0] != '\0') words += message(" of ", count, " ", type.data());
    if (all_counts != 0) words += message(" in blocks of ", counts.data());
    if (equal_counts == 0) words += " with counts";
    const bool sends = words.find("broadcast") != std::string::npos || words.starts_with("scatter");
    if (root >= 0) words += message(sends ? " from" : " to", " root ", root);
    if (order[0] != '\0') words += message(", ", order.data());
    words += message(" at ", file.data(), ":", line);
    return with_column ? message(words, ":", column) : words;
  }
};

/// The fingerprints of one collective, on their way between the ranks.
class Fingerprints {
 public:
  Fingerprints(const Group& group, const Operation& operation)
      : mine_(operation, group.size), all_(static_cast<std::size_t>(group.size)),
        pairs_(operation.uneven != nullptr ? PairCounts(*operation.uneven) : PairCounts()) {}

  int start(const Group& group) {
    return MPI_Iallgather(&mine_, sizeof mine_, MPI_BYTE, all_.data(), sizeof mine_, MPI_BYTE, group.fingerprints,
                          &request_);
  }

  /// As far as it goes without waiting; `done` and a `mismatch` are set, and MPI's code is returned. The counts of an
  /// uneven all_to_all go over the communicator of the collectives: all before it have started, and there is no other
  /// mismatch.
  int compare(const Group& group, bool call_sites, bool& done, std::optional<std::string>& mismatch) {
    int complete = 0;
    int code = MPI_Test(&request_, &complete, MPI_STATUS_IGNORE);
    if (code != MPI_SUCCESS || complete == 0) return code;
    mismatch = mismatched(group, call_sites);
    if (pairs_.any() && !mismatch) {
      code = pairs_.advance(group.native, complete);
      if (code == MPI_SUCCESS && complete != 0) mismatch = mismatched_counts(group);
    }
    done = complete != 0;
    return code;
  }

 private:
  /// What two ranks send and receive, if they don't agree: the same words on every rank.
  std::optional<std::string> mismatched_counts(const Group& group) const {
    const auto& found = pairs_.found();
    std::size_t receiver = 0;
    while (receiver < found.size() && found[receiver].sender < 0) ++receiver;
    if (receiver == found.size()) return {};
    const WrongPair& wrong = found[receiver];
    const auto place = [&](std::size_t rank) {
      const Fingerprint& one = all_[rank];
      return message(group.who(static_cast<int>(rank)), " at ", one.file.data(), ":", one.line);
    };
    return message("mismatched counts of ", mine_.name.data(), " #", mine_.sequence, " over '", group.name,
                   "': ", place(static_cast<std::size_t>(wrong.sender)), " sends ", wrong.sent, " elements to ",
                   place(receiver), ", which receives ", wrong.received, " from it");
  }

  /// What two ranks have entered, if they don't agree: the same words on every rank.
  std::optional<std::string> mismatched(const Group& group, bool call_sites) const {
    std::size_t first = 0;
    while (first < all_.size() && all_[first].order[0] == 0) ++first;
    if (first == all_.size()) first = 0;
    std::size_t other = 0;
    while (other < all_.size() && all_[other].agrees_with(all_[first], call_sites)) ++other;
    if (other == all_.size()) return {};
    const bool one_line = all_[first].line == all_[other].line && all_[first].column != all_[other].column;
    const auto entered = [&](std::size_t rank) {
      return message(group.who(static_cast<int>(rank)), " entered ", all_[rank].text(one_line));
    };
    return message("mismatched collectives #", mine_.sequence, " over '", group.name, "': ", entered(first), ", ",
                   entered(other));
  }

  Fingerprint mine_;
  std::vector<Fingerprint> all_;
  PairCounts pairs_;  // of an uneven all_to_all
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// For an operation whose checksum has changed.
inline CommError written_early(const Operation& operation, int rank) {
  return failure(operation.text() + ": its View was written before the operation was complete", operation, rank);
}

/// Once begun, calls back when MPI_Finalize begins, unless it has been destroyed before.
class AtFinalize {
 public:
  AtFinalize() = default;
  void begin(void (*call)(void*), void* argument) {
    call_ = call;
    argument_ = argument;
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, &finalizes, &key_, nullptr);
    MPI_Comm_set_attr(MPI_COMM_SELF, key_, this);
  }
  AtFinalize(const AtFinalize&) = delete;
  AtFinalize& operator=(const AtFinalize&) = delete;
  ~AtFinalize() {
    call_ = nullptr;
    if (key_ == MPI_KEYVAL_INVALID || !mpi_is_alive()) return;
    MPI_Comm_delete_attr(MPI_COMM_SELF, key_);
    MPI_Comm_free_keyval(&key_);
  }

 private:
  static int finalizes(MPI_Comm, int, void* self, void*) {
    auto& hook = *static_cast<AtFinalize*>(self);
    if (hook.call_ != nullptr) {
      hook.key_ = MPI_KEYVAL_INVALID;
      hook.call_(hook.argument_);
    }
    return MPI_SUCCESS;
  }

  void (*call_)(void*) = nullptr;
  void* argument_ = nullptr;
  int key_ = MPI_KEYVAL_INVALID;
};

}  // namespace kerkis::comm
