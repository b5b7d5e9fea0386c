// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include <kerkis/comm/hand_off.hpp>
#include <kerkis/comm/persistent_hand_off.hpp>
#include <kerkis/core/error.hpp>
#include <kerkis/module/matrix.hpp>
#include <kerkis/pipeline/stage.hpp>
#include <kerkis/schedule/communication.hpp>

namespace kerkis::detail {

/// The first bytes of every message between stages: what it is, so that none is taken for another.
template <std::size_t count>
struct MessageHeader {
  std::int64_t pass = 0;  ///< over the microbatches, counted by the executor
  std::int32_t microbatch = 0;
  std::int32_t backward = 0;
  std::int64_t boundary = 0;  ///< as in schedule::Message
  std::int64_t first_sample = 0;
  std::int64_t room = 0;  ///< rows from one matrix to the next
  std::array<std::int64_t, count> rows{}, columns{};

  friend bool operator==(const MessageHeader&, const MessageHeader&) = default;

  std::string text() const {
    std::string shapes;
    for (std::size_t i = 0; i < count; ++i) shapes += message(i == 0 ? "" : ", ", rows[i], " x ", columns[i]);
    return message(backward != 0 ? "the gradient" : "the activation", " of microbatch ", microbatch, " (first sample ",
                   first_sample, ") between the stages ", boundary, " and ", boundary + 1, " in pass ", pass, ", ",
                   shapes);
  }
};

/// Where the matrices of a message lie: a header, then one after the other, each at the start of a cache line.
template <class T, std::size_t count>
struct MessageLayout {
  static constexpr std::int64_t line = 64;
  static constexpr std::int64_t of_header = (static_cast<std::int64_t>(sizeof(MessageHeader<count>)) + line - 1) /
                                            line * line / static_cast<std::int64_t>(sizeof(T));
  static_assert(line % sizeof(T) == 0, "kerkis: elements at the boundaries of stages have 1, 2, 4 ... 64 bytes");

  std::array<std::int64_t, count> columns{};

  std::int64_t offset(std::size_t matrix, std::int64_t room) const {
    constexpr auto unit = static_cast<std::int64_t>(line / sizeof(T));
    std::int64_t elements = of_header;
    for (std::size_t i = 0; i < matrix; ++i) elements += (room * columns[i] + unit - 1) / unit * unit;
    return elements;
  }
  /// Elements up to the last row of the last matrix that has any.
  std::int64_t size(std::int64_t room, const std::array<std::int64_t, count>& rows) const {
    for (std::size_t i = count; i-- > 0;)
      if (rows[i] * columns[i] > 0) return offset(i, room) + rows[i] * columns[i];
    return of_header;
  }
};

/// The memory of one message, and the hand-off that repeats with it.
template <class T, class ExecutionSpace, std::size_t count>
class BoundaryBuffer {
 public:
  using Header = MessageHeader<count>;
  using Layout = MessageLayout<T, count>;
  using View = Matrix<T, ExecutionSpace>;

  BoundaryBuffer(const Layout& layout, std::int64_t capacity)
      : layout_(layout), capacity_(capacity),
        memory_(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("kerkis::pipeline::boundary")),
                static_cast<std::size_t>(layout.offset(count, capacity))) {}
  BoundaryBuffer(const BoundaryBuffer&) = delete;
  BoundaryBuffer& operator=(const BoundaryBuffer&) = delete;

  /// What the buffer holds, or will hold: here the shapes, of a message received what it says.
  Header header;

  /// A matrix by the header's shapes; unmanaged.
  View matrix(std::size_t i) const {
    return View(memory_.data() + layout_.offset(i, header.room), static_cast<std::size_t>(header.rows[i]),
                static_cast<std::size_t>(header.columns[i]));
  }

  /// A message of another size than the first goes without the persistent request: nothing is allocated either way.
  void send(const ExecutionSpace& execution, const Communicator& pipeline, int to, int tag) {
    write_header(execution);
    const auto size = static_cast<std::size_t>(layout_.size(header.room, header.rows));
    const Vector<T, ExecutionSpace> run(memory_.data(), size);
    if (persistent_size_ == 0) {
      repeats_ = persistent_send(execution, pipeline, run, {.to = to, .tag = tag});
      persistent_size_ = size;
    }
    under_way_ =
        size == persistent_size_ ? repeats_.start() : kerkis::send(execution, pipeline, run, {.to = to, .tag = tag});
  }
  void receive(const ExecutionSpace& execution, const Communicator& pipeline, int from, int tag) {
    if (persistent_size_ == 0) {
      persistent_size_ = memory_.extent(0);
      repeats_ = persistent_receive(execution, pipeline, Vector<T, ExecutionSpace>(memory_.data(), persistent_size_),
                                    {.from = from, .tag = tag, .received = &received_});
    }
    under_way_ = repeats_.start();
  }

  bool test() { return under_way_.test(); }
  void wait() { under_way_.wait(); }

  /// After a receive: takes the message's header over, if it is `expected`. Its shapes are not compared if it
  /// `brings_shapes`, but have to fit. Throws Error.
  void accept(const Header& expected, bool brings_shapes) {
    if (received_.count >= static_cast<std::size_t>(Layout::of_header)) {
      const Header came = read_header();
      Header wanted = expected;
      bool fits = true;
      if (brings_shapes) {
        wanted.room = came.room;
        wanted.rows = came.rows;
        fits = came.room >= 0 && came.room <= capacity_;
        for (const std::int64_t rows : came.rows) fits = fits && rows >= 0 && rows <= came.room;
      }
      if (fits && came == wanted && static_cast<std::int64_t>(received_.count) == layout_.size(came.room, came.rows)) {
        header = came;
        return;
      }
      throw Error(message("pipeline: rank ", received_.from, " has sent ", came.text(), ", ", received_.count,
                          " elements, where ", expected.text(), " was due"));
    }
    throw Error(message("pipeline: rank ", received_.from, " has sent ", received_.count, " elements where ",
                        expected.text(), " was due"));
  }

 private:
  static constexpr bool host_reaches =
      Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename ExecutionSpace::memory_space>::accessible;
  using There = Kokkos::View<Header, typename ExecutionSpace::memory_space, Kokkos::MemoryUnmanaged>;
  using Here = Kokkos::View<Header, Kokkos::HostSpace, Kokkos::MemoryUnmanaged>;

  There place() const { return There(reinterpret_cast<Header*>(memory_.data())); }
  void write_header(const ExecutionSpace& execution) {
    if constexpr (host_reaches)
      *place().data() = header;
    else
      Kokkos::deep_copy(execution, place(), Here(&header));
  }
  Header read_header() const {
    Header came;
    if constexpr (host_reaches)
      came = *place().data();
    else
      Kokkos::deep_copy(Here(&came), place());
    return came;
  }

  Layout layout_;
  std::int64_t capacity_;
  Vector<T, ExecutionSpace> memory_;
  Received received_;
  std::size_t persistent_size_ = 0;
  PersistentRequest repeats_;
  Request under_way_;
};

/// All buffers of one boundary and direction on a rank.
template <class T, class ExecutionSpace, std::size_t count>
struct BoundaryBuffers {
  MessageLayout<T, count> layout{};
  int peer = -1;  ///< none if both stages are here
  std::deque<BoundaryBuffer<T, ExecutionSpace, count>> buffers;
};

/// The rows that a stage has made of the room that it had in a buffer. Throws InputError if they are not there.
template <class Stage, class Buffer>
auto cut(const BoundaryViews<Stage>& outputs, const Buffer& buffer, int stage) {
  decltype(buffer.header.rows) rows{};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto &made = StageTraits<Stage>::at(outputs, i), room = buffer.matrix(i);
    require(made.data() == room.data() && made.extent(0) <= room.extent(0) && made.extent(1) == room.extent(1),
            "pipeline: stage ", stage, " has made ", made.extent(0), " x ", made.extent(1), " of an output of ",
            room.extent(0), " x ", room.extent(1), "; it can only cut rows off");
    rows[i] = static_cast<std::int64_t>(made.extent(0));
  }
  return rows;
}

}  // namespace kerkis::detail
