// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include <kerkis/comm/request.hpp>
#include <kerkis/comm/wire.hpp>

namespace kerkis::comm {

/// Refuses two Views that cannot be the two sides of one operation. To deduce the return type the compiler looks at the
/// body at once, so that this speaks before whatever else fails.
template <class Send, class Receive>
constexpr auto check_pair() {
  static_assert(Kokkos::is_view_v<Send> && Kokkos::is_view_v<Receive>,
                "kerkis: communication takes Kokkos Views, and options in braces: {.operation = Reduction::maximum}");
  static_assert(is_movable<typename Send::non_const_value_type>,
                "kerkis: communication takes Views of numbers, bool or trivially copyable structs");
  static_assert(!std::is_const_v<typename Receive::value_type>,
                "kerkis: the View that receives, the second one, must not be const");
  static_assert(std::is_same_v<typename Send::non_const_value_type, typename Receive::non_const_value_type>,
                "kerkis: the two Views of an operation have one element type");
  static_assert(Send::rank() <= 1 || Receive::rank() <= 1 || first_index_fastest<Send> == first_index_fastest<Receive>,
                "kerkis: the two Views of an operation order their elements alike: both LayoutLeft, or neither, unless "
                "one of them has rank 0 or 1");
}

/// Throws InputError if two Views share memory, as far as their spans tell: Views with gaps may lie in each other's.
template <class Send, class Receive>
void check_apart(Caller caller, const Send& send, const Receive& receive) {
  if (send.size() == 0 || receive.size() == 0 || !send.span_is_contiguous() || !receive.span_is_contiguous()) return;
  const auto address = [](const auto* element) { return reinterpret_cast<std::uintptr_t>(element); };
  const auto begin = address(send.data()), to = address(receive.data());
  const auto end = address(send.data() + send.size()), to_end = address(receive.data() + receive.size());
  require(end <= to || to_end <= begin, caller, ": the two Views have memory in common: ", end - begin,
          " bytes go out, ", to_end - to, " come in, and ", std::min(end, to_end) - std::max(begin, to),
          " bytes are of both");
}

/// Refuses a View that an operation cannot write; at once, as above.
template <class View>
constexpr auto check_written() {
  static_assert(Kokkos::is_view_v<View>, "kerkis: communication takes Kokkos Views");
  static_assert(is_movable<typename View::non_const_value_type>,
                "kerkis: communication takes Views of numbers, bool or trivially copyable structs");
  static_assert(!std::is_const_v<typename View::value_type>,
                "kerkis: this operation writes its View, which must not be const");
}

/// Throws InputError unless both Views have as many elements and, if they have as many indices, equal extents.
template <class Send, class Receive>
void check_sizes(Caller caller, const Send& send, const Receive& receive) {
  require(send.size() == receive.size(), caller, ": ", send.size(), " elements do not fill ", receive.size());
  if constexpr (Send::rank() == Receive::rank() && Send::rank() > 1)
    for (std::size_t d = 0; d < Send::rank(); ++d)
      require(send.extent(d) == receive.extent(d), caller, ": extent ", d, " is ", send.extent(d),
              " of the View that is read, but ", receive.extent(d), " of the one that is written");
}

inline void check_root(Caller caller, const Communicator& communicator, int root) {
  require(root >= 0 && root < communicator.size(), caller, ": root ", root, " is none of the ", communicator.size(),
          " ranks");
}

/// What is left of an operation with two Views over one rank: the elements of `send` in `receive`, at once.
template <class ExecutionSpace, class Send, class Receive>
Request copy(const ExecutionSpace& execution, const Communicator& communicator, const Send& send,
             const Receive& receive, const char* fence) {
  using Element = typename Receive::value_type;
  if (is_run(send) && is_run(receive)) {
    using To = Kokkos::View<Element*, typename Receive::memory_space, Kokkos::MemoryUnmanaged>;
    using From = Kokkos::View<const Element*, typename Send::memory_space, Kokkos::MemoryUnmanaged>;
    Kokkos::deep_copy(execution, To(receive.data(), receive.size()), From(send.data(), send.size()));
    execution.fence(fence);
    return {};
  }
  const Wire from(use<Access::read>(execution, communicator, send, fence, true));
  Wire to(use<Access::write>(execution, communicator, receive, fence, true));
  const auto run = from.run(communicator);
  std::copy_n(run.data, run.count, to.run(communicator).data);
  to.finish();
  return {};
}

/// A run whatever its elements are, so that operations are compiled once for all Views.
struct AnyRun {
  template <class Element>
  AnyRun(const Run<Element>& run)
      : data(reinterpret_cast<std::byte*>(run.data)), count(run.count), type(run.type), element(sizeof(Element)) {}
  void* at(std::size_t index) const { return data + index * element; }

  std::byte* data;
  std::size_t count;
  Datatype type;
  std::size_t element;  ///< bytes
};

/// A run cut into pieces that one MPI call can move. A run without elements is one piece.
class Pieces {
 public:
  Pieces(const Communicator& communicator, std::size_t count)
      : count_(count), longest_(communicator.state()->engine->options().largest_count) {}

  std::size_t number() const { return count_ <= longest_ ? 1 : (count_ + longest_ - 1) / longest_; }
  std::size_t begin(std::size_t piece) const { return piece * longest_; }
  int size(std::size_t piece) const { return static_cast<int>(std::min(longest_, count_ - begin(piece))); }

 private:
  std::size_t count_, longest_;
};

/// Steps of an operation whose MPI operations are all under way from its beginning, so that their order is the same on
/// all ranks.
class AllPieces final : public Steps {
 public:
  AllPieces(std::size_t number, std::unique_ptr<Steps> rest) : others_(number - 1), rest_(std::move(rest)) {}

  template <class Begin>
  int begin(const Begin& begin_piece, MPI_Request* request) {
    int code = begin_piece(std::size_t{0}, request);
    for (std::size_t i = 0; i < others_.size() && code == MPI_SUCCESS; ++i) code = begin_piece(i + 1, &others_[i]);
    return code;
  }
  bool next(MPI_Request& request, const MPI_Status& status) override {
    if (waited_ == others_.size()) return rest_ == nullptr || rest_->next(request, status);
    request = others_[waited_++];
    return false;
  }
  std::uint64_t checksum() const override { return rest_ != nullptr ? rest_->checksum() : 0; }

 private:
  std::vector<MPI_Request> others_;
  std::size_t waited_ = 0;
  std::unique_ptr<Steps> rest_;
};

/// Starts an operation of `number` pieces: `begin(piece, MPI_Request*)` starts one and returns the MPI code.
template <class Begin>
Request start_pieces(const Communicator& communicator, const Operation& operation, std::chrono::milliseconds deadline,
                     std::size_t number, std::unique_ptr<Steps> steps, const Begin& begin) {
  if (number == 1) [[likely]]
    return Request::start(communicator, operation, deadline, std::move(steps),
                          [begin](MPI_Request* request) { return begin(std::size_t{0}, request); });
  auto* const all = new AllPieces(number, std::move(steps));
  return Request::start(communicator, operation, deadline, std::unique_ptr<Steps>(all),
                        [begin, all](MPI_Request* request) { return all->begin(begin, request); });
}

/// Keeps something more until an operation is complete, and finishes it before `rest`.
template <class Owned>
class And final : public Steps {
 public:
  And(Owned owned, std::unique_ptr<Steps> rest) : owned_(std::move(owned)), rest_(std::move(rest)) {}
  bool next(MPI_Request& request, const MPI_Status& status) override {
    owned_.finish();
    return rest_ == nullptr || rest_->next(request, status);
  }
  std::uint64_t checksum() const override { return rest_ != nullptr ? rest_->checksum() : 0; }

 private:
  Owned owned_;
  std::unique_ptr<Steps> rest_;
};
template <class Owned>
std::unique_ptr<Steps> with(Owned owned, std::unique_ptr<Steps> rest) {
  return std::make_unique<And<Owned>>(std::move(owned), std::move(rest));
}

}  // namespace kerkis::comm
