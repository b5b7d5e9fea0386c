// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <kerkis/comm/wire.hpp>

namespace kerkis {

/// What has come by a receive.
struct Received {
  int from = -1;          ///< the rank that sent it
  std::size_t count = 0;  ///< its elements
};

namespace comm {

inline std::size_t bytes_of(const MPI_Status& status) {
  MPI_Count bytes = 0;
  check(MPI_Get_elements_x(&status, MPI_BYTE, &bytes), "MPI_Get_elements_x");
  return static_cast<std::size_t>(bytes);
}

/// For a message that ends within an element.
[[gnu::cold, gnu::noinline]] inline CommError broken_element(const MPI_Status& status, std::size_t element_bytes) {
  return CommError(message("rank ", status.MPI_SOURCE, " has sent ", bytes_of(status),
                           " bytes, no whole number of elements of ", element_bytes, " bytes"));
}

/// The elements that have come, of so many bytes, as `type` says. Throws CommError if they are not whole: the sender's
/// are of another type.
inline std::size_t elements_of(const MPI_Status& status, MPI_Datatype type, std::size_t element_bytes) {
  int count = 0;
  check(MPI_Get_count(&status, type, &count), "MPI_Get_count");
  if (count == MPI_UNDEFINED) [[unlikely]]
    throw broken_element(status, element_bytes);
  return static_cast<std::size_t>(count);
}

/// The first MPI operation of a message. A message of at least `piece_length` elements begins with a piece of so many,
/// and this behind them; the rest follows in pieces under a tag of its own, so that messages cannot be confused. The
/// receiver needs not know beforehand which kind comes.
struct Trailer {
  std::uint64_t total = 0;   ///< elements of the message
  std::uint64_t number = 0;  ///< names it
  std::uint8_t odd = 0;      ///< goes too if the bytes of all this would be even
};

/// Bytes of a trailer behind the elements of a piece. Together they are an odd number: to who receives wider elements,
/// whose piece is longer, that is no whole message, as it would be to take the trailer for data.
inline std::size_t trailer_bytes(std::size_t piece_bytes) {
  return offsetof(Trailer, odd) + (piece_bytes + offsetof(Trailer, odd) + 1) % 2;
}

/// An MPI type of `count` elements and a trailer, at their addresses; the caller frees it.
inline MPI_Datatype with_trailer(void* data, std::size_t count, MPI_Datatype element, std::size_t element_bytes,
                                 Trailer* trailer) {
  MPI_Aint places[2];
  check(MPI_Get_address(data, &places[0]), "MPI_Get_address");
  check(MPI_Get_address(trailer, &places[1]), "MPI_Get_address");
  const int lengths[] = {static_cast<int>(count), static_cast<int>(trailer_bytes(count * element_bytes))};
  const MPI_Datatype parts[] = {element, MPI_BYTE};
  MPI_Datatype type = MPI_DATATYPE_NULL;
  check(MPI_Type_create_struct(2, lengths, places, parts, &type), "MPI_Type_create_struct");
  check(MPI_Type_commit(&type), "MPI_Type_commit");
  return type;
}

/// The largest tag of users; an eighth of MPI's tags above it are for the pieces of long messages.
inline int largest_tag(const Communicator& communicator, const char* operation = "a message") {
  int& known = resources(communicator, operation)->largest_tag;
  if (known < 0) {
    void* value = nullptr;
    int found = 0;
    check(MPI_Comm_get_attr(communicator.native(), MPI_TAG_UB, &value, &found), "MPI_Comm_get_attr");
    const int bound = found != 0 ? *static_cast<int*>(value) : 32767;
    known = bound - bound / 8;
  }
  return known;
}

/// What the two sides of a message have in common: it moves in one piece, or in several of which two are under way.
/// Each piece goes straight from or to the View where MPI can reach it there, else through a buffer, or from a copy of
/// all of them. The execution space has been fenced when the constructor returns.
template <bool sending, class ExecutionSpace, class View>
class MessageSide {
 public:
  using Element = typename View::non_const_value_type;
  using AsWire = Wire<sending ? Access::read : Access::write, ExecutionSpace, View>;  // its checks

  MessageSide(const ExecutionSpace& execution, const Communicator& communicator, const View& view, int peer, int tag,
              const char* fence, bool copied = false)
      : execution_(execution), view_(view), shape_(shape_of(view)), type_(datatype<Element>(communicator)),
        native_(communicator.native()), peer_(peer), tag_(tag), count_(view.size()),
        length_(piece_length(communicator, sizeof(Element))), first_own_tag_(largest_tag(communicator) + 1),
        copied_(copied) {
    static_assert(sizeof(AsWire) > 0);
    comm::fence(execution, fence);
    bool reached = AsWire::host_reaches;
    if constexpr (!AsWire::host_reaches) reached = device_aware<typename View::memory_space>(execution, communicator);
    straight_ =
        !copied && (count_ == 0 || (reached && !communicator.state()->engine->options().stage && shape_.is_run()));
    if (copied) {
      buffers_[0] = Resources::lend(resources(communicator), buffers_of<StagingSpace<ExecutionSpace>>(),
                                    count_ * sizeof(Element));
      copy_now<true>(execution_, view_, shape_, static_cast<Element*>(buffers_[0].data()), 0, count_);
    } else if (!straight_) {
      const std::size_t bytes = std::min(count_, length_) * sizeof(Element);
      for (std::size_t i = 0; i < (count_ > length_ ? 2u : 1u); ++i)
        buffers_[i] = Resources::lend(resources(communicator), buffers_of<StagingSpace<ExecutionSpace>>(), bytes);
    }
    if constexpr (sending) {
      trailer_.total = count_;
      trailer_.number = resources(communicator)->next_long_message++;
    }
  }

  /// Starts the first piece in `request`, and of a message to send the second.
  int begin(MPI_Request* request) {
    begun_ = 1;
    const std::size_t count = std::min(count_, length_);
    if constexpr (sending) copy_piece(0);
    int code = MPI_SUCCESS;
    if (count < length_) {
      code = move(place(0), static_cast<int>(count), type_.native, tag_, request);
    } else {
      MPI_Datatype type = with_trailer(place(0), count, type_.native, sizeof(Element), &trailer_);
      code = move(MPI_BOTTOM, 1, type, tag_, request);
      MPI_Type_free(&type);
    }
    if constexpr (sending)
      if (code == MPI_SUCCESS && pieces() > 1) begin_piece();
    return code;
  }

  /// For a message that goes on by itself.
  int begin() { return begin(&requests_[0]); }

  /// The first piece of a message to receive is here.
  void came(const MPI_Status& status) {
    if (ended_ > 0) return;
    peer_ = status.MPI_SOURCE;
    const std::size_t piece = length_ * sizeof(Element);
    const bool has_trailer = count_ >= length_ && bytes_of(status) == piece + trailer_bytes(piece);
    if (!has_trailer) {
      trailer_.total = elements_of(status, type_.native, sizeof(Element));
      if (trailer_.total >= length_)  // so many would have come with a trailer
        throw CommError(message("rank ", peer_, " has sent elements that have not the ", sizeof(Element),
                                " bytes of the View's, ", bytes_of(status), " bytes at first"));
    }
    if (trailer_.total > count_)
      throw CommError(
          message("rank ", peer_, " has sent ", trailer_.total, " elements, more than the ", count_, " of the View"));
  }
  /// As Wire's, of what is sent.
  std::uint64_t checksum() const {
    if constexpr (sending && AsWire::host_reaches)
      return straight_ ? checksum_of(view_.data(), count_ * sizeof(Element)) : 0;
    return 0;
  }
  /// How far it has got.
  Side side() const { return {.under_way = ended_ < pieces(), .moved = ended_, .pieces = pieces()}; }
  Received received() const { return {peer_, static_cast<std::size_t>(trailer_.total)}; }

  /// The first piece, whose request the caller has tested, is complete.
  void end_first() { end_piece(); }

  /// Moves on; returns whether all pieces have moved.
  bool advance() {
    for (;;) {
      while (ended_ < begun_) {
        MPI_Request& request = requests_[ended_ % 2];
        int done = 0;
        MPI_Status status;
        check(MPI_Test(&request, &done, &status), "MPI_Test");
        if (done == 0) break;
        if constexpr (!sending) came(status);
        end_piece();
      }
      if (ended_ == pieces()) return true;
      if (begun_ == pieces() || begun_ == ended_ + 2 || (!sending && ended_ == 0)) return false;
      begin_piece();
    }
  }

 private:
  std::size_t pieces() const {
    const auto total = static_cast<std::size_t>(sending || ended_ > 0 ? trailer_.total : count_);
    return total <= length_ ? 1 : (total + length_ - 1) / length_;
  }
  std::size_t size(std::size_t piece) const {
    return std::min(length_, static_cast<std::size_t>(trailer_.total) - piece * length_);
  }
  Element* place(std::size_t piece) const {
    if (straight_) return const_cast<Element*>(view_.data()) + piece * length_;
    if (copied_) return static_cast<Element*>(buffers_[0].data()) + piece * length_;
    return static_cast<Element*>(buffers_[piece % 2].data());
  }
  void copy_piece(std::size_t piece) {
    if (straight_ || copied_) return;
    const std::size_t first = piece * length_;
    copy_now<sending>(execution_, view_, shape_, place(piece), first, first + size(piece));
  }
  int move(void* data, int count, MPI_Datatype type, int tag, MPI_Request* request) {
    return sending ? MPI_Isend(data, count, type, peer_, tag, native_, request)
                   : MPI_Irecv(data, count, type, peer_, tag, native_, request);
  }
  void begin_piece() {
    const std::size_t piece = begun_++;
    if constexpr (sending) copy_piece(piece);
    const int own_tags = first_own_tag_ / 8;
    const int tag = first_own_tag_ + static_cast<int>(trailer_.number % static_cast<std::uint64_t>(own_tags));
    check(move(place(piece), static_cast<int>(size(piece)), type_.native, tag, &requests_[piece % 2]),
          sending ? "MPI_Isend" : "MPI_Irecv");
  }
  void end_piece() {
    if constexpr (!sending) copy_piece(ended_);
    ++ended_;
  }

  ExecutionSpace execution_;
  View view_;
  Shape shape_;
  Datatype type_;
  MPI_Comm native_;
  int peer_, tag_;
  std::size_t count_, length_;
  int first_own_tag_;
  bool copied_, straight_ = true;
  Trailer trailer_;
  std::array<Block, 2> buffers_;
  std::array<MPI_Request, 2> requests_{MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  std::size_t begun_ = 0, ended_ = 0;  // pieces
};

/// A message in pieces, as an operation.
template <bool sending, class ExecutionSpace, class View>
class LongMessage final : public Steps {
 public:
  using Side = MessageSide<sending, ExecutionSpace, View>;
  LongMessage(const ExecutionSpace& execution, const Communicator& communicator, const View& view, int peer, int tag,
              const char* fence, Received* received)
      : Steps(true), side_(execution, communicator, view, peer, tag, fence), received_(received) {}

  Side& side() { return side_; }
  bool next(MPI_Request&, const MPI_Status& status) override {
    if (std::exchange(first_, false)) {
      if constexpr (!sending) side_.came(status);
      side_.end_first();
    }
    if (!side_.advance()) return false;
    if (received_ != nullptr) *received_ = side_.received();
    return true;
  }
  Sides sides() const override { return {.send = side_.side(), .receive = side_.side()}; }
  std::uint64_t checksum() const override { return side_.checksum(); }

 private:
  Side side_;
  Received* received_;
  bool first_ = true;
};

}  // namespace comm
}  // namespace kerkis
