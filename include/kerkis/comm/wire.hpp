// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#include <kerkis/comm/communicator.hpp>
#include <kerkis/comm/datatype.hpp>
#include <kerkis/comm/pack.hpp>
#include <kerkis/comm/staging.hpp>

namespace kerkis::comm {

/// A run of elements that MPI can read or write.
template <class Element>
struct Run {
  Element* data;
  std::size_t count;
  Datatype type;
};

/// In the place of a fence's name: the caller has just fenced.
inline constexpr const char* fenced = nullptr;

/// What an operation does with a View. `send` is to read it for a message of its own, which may go as an MPI type.
enum class Access { read, write, read_write, send };

/// Bytes of a View with gaps that go as an MPI type: measured on one host with MPICH 4.2 and UCX 1.18, where a run of
/// more than about 5,800 bytes waits for the receiver, and what a type describes is sent at once up to 8 KiB. Shorter
/// and longer Views go faster packed.
inline constexpr std::size_t typed_from = 5'800, typed_to = 8'192;

/// Copies elements `begin` to `end` of a View to a run (`packing`) or back; complete when it returns.
template <bool packing, class ExecutionSpace, class View>
void copy_now(const ExecutionSpace& execution, const View& view, const Shape& shape,
              typename View::non_const_value_type* run, std::size_t begin, std::size_t end) {
  using Element = typename View::non_const_value_type;
  using Memory = typename View::memory_space;
  if (begin == end) return;
  auto* const data = const_cast<Element*>(view.data());
  if constexpr (!Kokkos::SpaceAccessibility<Kokkos::HostSpace, Memory>::accessible) {
    if (shape.is_run()) {  // by the copy engine
      const Kokkos::View<Element*, Memory, Kokkos::MemoryUnmanaged> there(data + begin, end - begin);
      const Kokkos::View<Element*, PinnedSpace, Kokkos::MemoryUnmanaged> here(run, end - begin);
      if constexpr (packing)
        Kokkos::deep_copy(execution, here, there);
      else
        Kokkos::deep_copy(execution, there, here);
      execution.fence(packing ? "kerkis::pack" : "kerkis::unpack");
      return;
    }
  }
  copy_packed<packing, ExecutionSpace, Memory>(execution, run, data, shape, begin, end);
  fence(execution, packing ? "kerkis::pack" : "kerkis::unpack");
}

/// The elements of a View as one run in memory that MPI can reach, in the order of `shape_of`: the View's own memory
/// where it has no gaps and is within reach, a buffer of the communicator's otherwise. (To send: or one element of a
/// type that describes them all.) The execution-space instance has been fenced when the constructor returns, and again
/// when `finish` has unpacked. The run stays where it is when the wire is moved.
template <Access access, class ExecutionSpace, class View>
class Wire {
 public:
  static_assert(Kokkos::is_view_v<View>, "kerkis: communication takes Kokkos Views");
  static constexpr bool only_reads = access == Access::read || access == Access::send;
  static_assert(only_reads || !std::is_const_v<typename View::value_type>,
                "kerkis: communication writes to this View, which must not be const");
  using Element = typename View::non_const_value_type;
  static constexpr bool only_writes = access == Access::write;
  static constexpr bool host_reaches =
      Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename View::memory_space>::accessible;
  static_assert(host_reaches || Kokkos::SpaceAccessibility<ExecutionSpace, typename View::memory_space>::accessible,
                "kerkis: communication takes Views in memory that the host, or the execution space given, can reach");
  static_assert(
      host_reaches || Kokkos::SpaceAccessibility<ExecutionSpace, StagingSpace<ExecutionSpace>>::accessible,
      "kerkis: this back end of Kokkos has no host memory that the device reaches: copy to a host View yourself");

  /// `on_host`: the run lies in host memory also where MPI reaches the device's, for who computes with it.
  Wire(const ExecutionSpace& execution, const Communicator& communicator, const View& view, const char* fence,
       [[maybe_unused]] bool on_host = false)
      : view_(view), run_{const_cast<Element*>(view.data()), view.size(), datatype<Element>(communicator)},
        resources_(comm::resources(communicator)) {
    if constexpr (View::rank() > 1)
      run_.type.order = first_index_fastest<View> ? "first index fastest" : "last index fastest";
    if (fence != fenced) comm::fence(execution, fence);
    checked_ = communicator.state() && communicator.state()->engine->options().check;
    const bool staged = communicator.state() && communicator.state()->engine->options().stage;
    bool aware = false;
    if constexpr (!host_reaches) aware = !on_host && device_aware<typename View::memory_space>(execution, communicator);
    if (run_.count == 0 || ((host_reaches || aware) && !staged && is_run(view))) return;
    if constexpr (access == Access::send && host_reaches)
      if (const std::size_t bytes = run_.count * sizeof(Element); !staged && bytes > typed_from && bytes <= typed_to) {
        run_.type.native =
            communicator.state()->engine->objects().strided(shape_of(view), run_.type.native, sizeof(Element));
        run_.count = 1;
        typed_ = true;
        return;
      }
    const BufferSpace* space = &buffers_of<StagingSpace<ExecutionSpace>>();
    if constexpr (!host_reaches)
      if (aware && !staged) space = &buffers_of<typename View::memory_space>();
    packed_ = std::make_unique<Packed>(
        Packed{execution, shape_of(view), Resources::lend(resources_, *space, run_.count * sizeof(Element))});
    run_.data = static_cast<Element*>(packed_->buffer.data());
    if constexpr (access != Access::write) pack();
  }

  const Run<Element>& run() const { return run_; }

  /// Whether the run is a buffer.
  bool packed() const { return packed_ != nullptr; }

  /// Of the elements of a View that MPI reads where the caller could write; else 0.
  std::uint64_t checksum() const {
    if constexpr (only_reads && host_reaches)
      return packed() || typed_ ? 0 : checksum_of(run_.data, run_.count * sizeof(Element));
    return 0;
  }

  /// Whether something has to live, or to be done, until the operation is complete; in checking mode something may.
  bool needed() const { return packed() || view_.use_count() > 0 || checked_; }

  /// Of the communicator; may be null.
  Resources* resources() const { return resources_; }

  /// Puts the View's elements in the buffer, if there is one.
  void pack() {
    if (packed()) copy_now<true>(packed_->execution, view_, packed_->shape, run_.data, 0, run_.count);
  }

  /// Puts what has come where the View is.
  void finish() { finish(run_.count); }
  /// The same for the first `count` elements.
  void finish(std::size_t count) {
    if constexpr (!only_reads)
      if (packed()) copy_now<false>(packed_->execution, view_, packed_->shape, run_.data, 0, count);
  }

 private:
  struct Packed {
    ExecutionSpace execution;
    Shape shape;
    Block buffer;
  };

  View view_;
  Run<Element> run_;
  Resources* resources_;
  std::unique_ptr<Packed> packed_;  // apart, so that a wire without a buffer is small
  bool typed_ = false, checked_ = false;
};

/// Keeps wires until an operation is complete, and finishes them.
template <class... Wires>
class KeepWires final : public Steps {
 public:
  explicit KeepWires(Wires&&... wires) : wires_(std::move(wires)...) {}
  bool next(MPI_Request&) override {
    std::apply([](Wires&... wires) { (wires.finish(), ...); }, wires_);
    return true;
  }
  std::uint64_t checksum() const override {
    const auto of = []<class One>(const One& wire) -> std::uint64_t {
      if constexpr (requires { wire.checksum(); })
        return wire.checksum();
      else
        return 0;
    };
    return std::apply([&of](const Wires&... wires) { return (of(wires) + ... + std::uint64_t{0}); }, wires_);
  }

 private:
  std::tuple<Wires...> wires_;
};

/// Null if there is nothing to keep.
template <class... Wires>
std::unique_ptr<Steps> keep(Wires&&... wires) {
  if (!(... || wires.needed())) return nullptr;
  Resources* owner = nullptr;
  ((owner = owner != nullptr ? owner : wires.resources()), ...);
  return std::unique_ptr<Steps>(new (owner) KeepWires<Wires...>(std::move(wires)...));
}

}  // namespace kerkis::comm
