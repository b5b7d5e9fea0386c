// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <optional>
#include <utility>

namespace kerkis::comm {

/// A kind of memory for buffers: host, pinned, or a device's.
struct BufferSpace {
  void* (*allocate)(std::size_t bytes);
  void (*free)(void* data);
};

/// Ordinary host memory, aligned for any element and for vector instructions.
inline const BufferSpace& host_buffers() {
  static constexpr BufferSpace space{[](std::size_t bytes) {
                                       void* const data = std::aligned_alloc(64, bytes);
                                       if (data == nullptr) throw std::bad_alloc();
                                       return data;
                                     },
                                     [](void* data) { std::free(data); }};
  return space;
}

class Resources;

/// Memory lent by a root communicator; its end gives it back.
class Block {
 public:
  Block() = default;
  Block(const BufferSpace& space, void* data, std::size_t bytes, Resources* owner)
      : space_(&space), data_(data), bytes_(bytes), owner_(owner) {}
  Block(Block&& other) noexcept { swap(other); }
  Block& operator=(Block&& other) noexcept {
    Block taken(std::move(other));
    swap(taken);
    return *this;
  }
  inline ~Block();

  void* data() const { return data_; }

 private:
  friend class Resources;
  void swap(Block& other) noexcept {
    std::swap(space_, other.space_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(owner_, other.owner_);
  }

  const BufferSpace* space_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  Resources* owner_ = nullptr;
};

/// What the operations of one root communicator share besides progress: buffers, which are used again, since memory
/// fresh from the system costs a page fault every 4 KiB, and what was found out about the MPI library.
class Resources {
 public:
  Resources() = default;
  Resources(const Resources&) = delete;
  Resources& operator=(const Resources&) = delete;
  ~Resources() {
    for (Block& block : free_) block.owner_ = nullptr;
    while (number_of_free_pieces_ > 0) ::operator delete(free_pieces_[--number_of_free_pieces_]);
  }

  /// At least so many bytes, contents unspecified; `owner` null: of nobody, freed at its end.
  static Block lend(Resources* owner, const BufferSpace& space, std::size_t bytes) {
    if (owner != nullptr)
      if (Block found = owner->find(space, bytes); found.data() != nullptr) return found;
    // Sizes in steps of an eighth, so that nearly equal Views share buffers.
    const std::size_t step = std::bit_ceil(bytes < 512 ? std::size_t{512} : bytes) / 16;
    const std::size_t rounded = (bytes + step - 1) / step * step;
    const std::size_t whole = (rounded + 63) / 64 * 64;
    return Block(space, space.allocate(whole), whole, owner);
  }

  /// Memory for a small object, aligned as by the general `new`. `owner` null: of nobody. What is not freed when the
  /// owner ends is never freed.
  static void* new_piece(Resources* owner, std::size_t bytes) {
    if (bytes > piece_bytes_ - header_bytes_) owner = nullptr;
    void* piece = nullptr;
    if (owner != nullptr && owner->number_of_free_pieces_ > 0) [[likely]] {
      piece = owner->free_pieces_[--owner->number_of_free_pieces_];
    } else {
      piece = ::operator new(owner != nullptr ? piece_bytes_ : header_bytes_ + bytes);
    }
    *static_cast<Resources**>(piece) = owner;
    return static_cast<std::byte*>(piece) + header_bytes_;
  }
  static void free_piece(void* object) noexcept {
    void* const piece = static_cast<std::byte*>(object) - header_bytes_;
    Resources* const owner = *static_cast<Resources**>(piece);
    if (owner != nullptr && owner->number_of_free_pieces_ < owner->free_pieces_.size()) [[likely]]
      owner->free_pieces_[owner->number_of_free_pieces_++] = piece;
    else
      ::operator delete(piece);
  }

  std::optional<bool> device_aware;     ///< found out at first use
  int largest_tag = -1;                 ///< of users; found out at first use
  std::uint32_t next_long_message = 0;  ///< numbers messages that go in pieces

 private:
  friend class Block;
  static constexpr std::size_t most_ = 24;
  static constexpr std::size_t piece_bytes_ = 512, header_bytes_ = __STDCPP_DEFAULT_NEW_ALIGNMENT__;

  Block find(const BufferSpace& space, std::size_t bytes) {
    std::size_t best = number_of_free_;
    for (std::size_t i = 0; i < number_of_free_; ++i)
      if (free_[i].space_ == &space && free_[i].bytes_ >= bytes &&
          free_[i].bytes_ / 4 <= std::max(bytes, std::size_t{512}) &&
          (best == number_of_free_ || free_[i].bytes_ < free_[best].bytes_))
        best = i;
    if (best == number_of_free_) return {};
    Block found = std::move(free_[best]);
    --number_of_free_;
    if (best < number_of_free_) free_[best] = std::move(free_[number_of_free_]);
    found.owner_ = this;
    return found;
  }

  void give_back(Block&& block) noexcept {
    block.owner_ = nullptr;
    if (number_of_free_ == most_) {  // the one that has lain here longest, or nearly, goes
      for (std::size_t i = 1; i < most_; ++i) free_[i - 1] = std::move(free_[i]);
      --number_of_free_;
    }
    free_[number_of_free_++] = std::move(block);
  }

  std::size_t number_of_free_pieces_ = 0;
  std::array<void*, most_> free_pieces_{};
  std::size_t number_of_free_ = 0;
  std::array<Block, most_> free_;
};

/// Of a class whose objects lie in memory that is used again: every operation has some, and the general allocator costs
/// a tenth of a small one. `new (owner) T`; the owner may be null.
struct InPieces {
  static void* operator new(std::size_t bytes, Resources* owner) { return Resources::new_piece(owner, bytes); }
  static void operator delete(void* object, Resources*) { Resources::free_piece(object); }
  static void* operator new(std::size_t bytes) { return Resources::new_piece(nullptr, bytes); }
  static void operator delete(void* object) { Resources::free_piece(object); }
};

inline Block::~Block() {
  if (data_ == nullptr) return;
  if (owner_ != nullptr)
    owner_->give_back(std::move(*this));
  else
    space_->free(data_);
}

}  // namespace kerkis::comm
