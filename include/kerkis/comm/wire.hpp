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

/// Whether a View with gaps goes as an MPI type: measured on one host with MPICH 4.2 and UCX 1.18, where a run of more
/// than about 5,800 bytes waits for the receiver, and what a type describes is sent at once up to 8 KiB. Shorter and
/// longer Views go faster packed, but for those that leave the cache: MPI packs these piece by piece as they go, as
/// fast if their lines are long.
inline bool goes_as_type(const Shape& shape, std::size_t bytes, std::size_t element_bytes) {
  const bool long_lines = shape.stride[0] == 1 && shape.extent[0] * element_bytes >= 2'048;
  return bytes > 5'800 && (bytes <= 8'192 || (bytes >= 3u << 20 && long_lines));
}

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

/// What an operation asks of a View: what a wire is made of. It refers to what `use` was given.
template <Access access, class ExecutionSpace, class View>
struct Use {
  const ExecutionSpace& execution;
  const Communicator& communicator;
  const View& view;
  const char* fence;
  bool on_host;  ///< the run lies in host memory also where MPI reaches the device's, for who computes with it
  bool here;     ///< else this rank does not use it: the run has no elements
  bool copied;   ///< the run is a copy in any case
};

/// Fences `execution`, unless its caller has: before any wire of the operation is made.
template <Access access, class ExecutionSpace, class View>
Use<access, ExecutionSpace, View> use(const ExecutionSpace& execution, const Communicator& communicator,
                                      const View& view, const char* fence, bool on_host = false, bool here = true,
                                      bool copied = false) {
  if (here && fence != fenced) comm::fence(execution, fence);
  return {execution, communicator, view, fence, on_host, here, copied};
}

/// The elements of a View as one run in memory that MPI can reach, in the order of `shape_of`: the View's own memory
/// where it has no gaps and is within reach, a buffer of the communicator's otherwise. (To send: or one element of a
/// type that describes them all.) The execution-space instance has been fenced again when `finish` has unpacked. The
/// run stays where it is when the wire is moved.
template <Access access, class ExecutionSpace, class View>
class Wire {
 public:
  static_assert(Kokkos::is_view_v<View>, "kerkis: communication takes Kokkos Views");
  static constexpr bool only_reads = access == Access::read || access == Access::send;
  static_assert(only_reads || !std::is_const_v<typename View::value_type>,
                "kerkis: communication writes to this View, which must not be const");
  using Element = typename View::non_const_value_type;
  static constexpr bool host_reaches =
      Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename View::memory_space>::accessible;
  static_assert(host_reaches || Kokkos::SpaceAccessibility<ExecutionSpace, typename View::memory_space>::accessible,
                "kerkis: communication takes Views in memory that the host, or the execution space given, can reach");
  static_assert(
      host_reaches || Kokkos::SpaceAccessibility<ExecutionSpace, StagingSpace<ExecutionSpace>>::accessible,
      "kerkis: this back end of Kokkos has no host memory that the device reaches: copy to a host View yourself");

  explicit Wire(const Use<access, ExecutionSpace, View>& use) : view_(use.here ? use.view : View()), here_(use.here) {
    if (!here_) [[unlikely]]
      return;
    const auto& state = use.communicator.state();
    const bool staged = state && state->engine->options().stage;
    bool aware = host_reaches;
    if constexpr (!host_reaches)
      aware = !use.on_host && device_aware<typename View::memory_space>(use.execution, use.communicator);
    if (view_.size() > 0 && (!aware || staged || use.copied || !is_run(view_))) [[unlikely]]
      go_round(use, staged, aware);
  }

  /// Of `communicator`, for which it was made.
  Run<Element> run(const Communicator& communicator) const {
    if (detour_ != nullptr) [[unlikely]]
      return detour_->run;
    Run<Element> run{const_cast<Element*>(view_.data()), here_ ? view_.size() : 0, type(communicator)};
    if (made_ != MPI_DATATYPE_NULL) [[unlikely]] {
      run.count = 1;
      run.type.native = made_;
    }
    return run;
  }

  /// Of the elements of a View that MPI reads where the caller could write; else 0.
  std::uint64_t checksum() const {
    if constexpr (only_reads && host_reaches)
      return detour_ != nullptr || made_ != MPI_DATATYPE_NULL || !here_
                 ? 0
                 : checksum_of(view_.data(), view_.size() * sizeof(Element));
    return 0;
  }

  /// Puts the View's elements in the buffer, if there is one.
  void pack() {
    if (packed()) copy_now<true>(detour_->execution, view_, detour_->shape, detour_->run.data, 0, detour_->run.count);
  }

  /// Puts what has come where the View is.
  void finish() {
    if (detour_ != nullptr) [[unlikely]]
      finish(detour_->run.count);
  }
  /// The same for the first `count` elements.
  void finish([[maybe_unused]] std::size_t count) {
    if constexpr (!only_reads)
      if (packed()) copy_now<false>(detour_->execution, view_, detour_->shape, detour_->run.data, 0, count);
  }

 private:
  /// Where the elements are if not in the View.
  struct Detour : InPieces {
    Detour(const ExecutionSpace& its_execution, const Shape& its_shape, const Run<Element>& its_run)
        : execution(its_execution), shape(its_shape), run(its_run) {}
    ExecutionSpace execution;
    Shape shape;
    Block buffer;
    Run<Element> run;
  };

  static Datatype type(const Communicator& communicator) {
    Datatype result = datatype<Element>(communicator);
    if constexpr (View::rank() > 1)
      result.order = first_index_fastest<View> ? "first index fastest" : "last index fastest";
    return result;
  }
  bool packed() const { return detour_ != nullptr; }

  [[gnu::noinline]] void go_round(const Use<access, ExecutionSpace, View>& use, bool staged,
                                  [[maybe_unused]] bool aware) {
    Run<Element> run{const_cast<Element*>(view_.data()), view_.size(), type(use.communicator)};
    const std::size_t bytes = run.count * sizeof(Element);
    const Shape shape = shape_of(view_);
    if constexpr (access == Access::send && host_reaches)
      if (!staged && !use.copied && goes_as_type(shape, bytes, sizeof(Element))) {
        auto& objects = use.communicator.state()->engine->objects();
        made_ = objects.strided(shape, run.type.native, sizeof(Element));
        return;
      }
    detour_.reset(new (resources(use.communicator)) Detour(use.execution, shape, run));
    const BufferSpace* space = &buffers_of<StagingSpace<ExecutionSpace>>();
    if constexpr (!host_reaches)
      if (aware && !staged) space = &buffers_of<typename View::memory_space>();
    detour_->buffer = Resources::lend(resources(use.communicator), *space, bytes);
    detour_->run.data = static_cast<Element*>(detour_->buffer.data());
    if constexpr (access != Access::write) pack();
  }

  View view_;
  std::unique_ptr<Detour> detour_;  // null: the run is the View's memory
  bool here_;
  MPI_Datatype made_ = MPI_DATATYPE_NULL;  // for the View: one element of it is the run
};

/// Keeps wires until an operation is complete, and finishes them.
template <class... Wires>
class KeepWires final : public Steps {
 public:
  template <class... Uses>
  explicit KeepWires(const Uses&... uses) : wires_(uses...) {}

  /// A tuple of them, of `communicator`, for which they were made.
  std::tuple<Run<typename Wires::Element>...> runs(const Communicator& communicator) const {
    return std::apply([&](const Wires&... wires) { return std::tuple(wires.run(communicator)...); }, wires_);
  }
  bool next(MPI_Request&, const MPI_Status&) override {
    std::apply([](Wires&... wires) { (wires.finish(), ...); }, wires_);
    return true;
  }
  std::uint64_t checksum() const override {
    return std::apply([](const Wires&... wires) { return (wires.checksum() + ... + std::uint64_t{0}); }, wires_);
  }

 private:
  std::tuple<Wires...> wires_;
};

/// One wire for each use, the first of which names its fence. Inline, so that the uses never lie in memory.
template <Access... access, class ExecutionSpace, class... Views>
[[gnu::always_inline]] inline auto keep(const Communicator& communicator,
                                        const Use<access, ExecutionSpace, Views>&... uses) {
  using Kept = KeepWires<Wire<access, ExecutionSpace, Views>...>;
  const char* const operation = std::get<0>(std::tuple(uses.fence...));
  return std::unique_ptr<Kept>(new (resources(communicator, operation)) Kept(uses...));
}

}  // namespace kerkis::comm
