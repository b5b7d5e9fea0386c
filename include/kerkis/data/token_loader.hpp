// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include <kerkis/comm/require_same.hpp>
#include <kerkis/core/error.hpp>
#include <kerkis/core/partition.hpp>
#include <kerkis/core/philox.hpp>
#include <kerkis/mesh/mesh.hpp>
#include <kerkis/nn/token_batch.hpp>

namespace kerkis {

/// Of TokenLoader. The same on every rank.
struct TokenLoaderOptions {
  std::int64_t batch = 16;    ///< sequences of a whole step, over all replicas
  std::int64_t context = 64;  ///< tokens of a sequence
  std::int64_t steps = 1;     ///< how many batches the loader is, as a range
  std::uint64_t seed = 1;     ///< of the choice of windows
};

/// Windows of a text as next-byte prediction: the targets are the tokens one position later. Which windows a step has
/// depends on the seed, the step and the sequence's global index alone; each data replica loads its share of them.
///
///     for (auto batch : loader) trainer.step(batch);
template <class Space = Kokkos::DefaultExecutionSpace>
class TokenLoader {
 public:
  using Batch = TokenBatch<Space>;  ///< a replica's share of a step

  /// Collective over the mesh. Throws InputError if the text is shorter than a window of context + 1 bytes, a number is
  /// below 1, or the text or an option is not the same on every rank.
  template <class Plan, class Place>
  TokenLoader(const Mesh<Plan, Place>& mesh, std::vector<std::uint8_t> text, TokenLoaderOptions options)
      : text_(std::move(text)), options_(options), replicas_(mesh.template extent<axis::Data>()),
        replica_(mesh.template coordinate<axis::Data>()) {
    require_same(mesh.world(), "loader",
                 {{"batch", message(options.batch)},
                  {"context", message(options.context)},
                  {"steps", message(options.steps)},
                  {"seed", message(options.seed)},
                  {"the size of the text", message(text_.size())},
                  {"the text's checksum", message(comm::checksum_of(text_.data(), text_.size()))}});
    require(options.batch >= 1, "loader: a batch of ", options.batch, " sequences: at least 1 is needed");
    require(options.context >= 1, "loader: a context of ", options.context, " tokens: at least 1 is needed");
    require(size() > options.context, "loader: a text of ", size(), " bytes is too short for sequences of ",
            options.context, " and their targets");
  }

  /// The share of this replica of the batch of `step`: random windows. Valid until the next call.
  Batch load(std::int64_t step) {
    const Random random(options_.seed, stream_of("loader"), static_cast<std::uint32_t>(step));
    return fill(options_.batch, [&](std::int64_t sequence) {
      return static_cast<std::int64_t>(
          random.below(static_cast<std::uint64_t>(size() - options_.context), static_cast<std::uint64_t>(sequence)));
    });
  }

  /// This replica's share of up to `count` windows that are spread evenly over the text. Valid until the next call.
  Batch spread(std::int64_t count) {
    const std::int64_t last = size() - options_.context - 1;
    count = std::max<std::int64_t>(1, std::min(count, last / options_.context));
    return fill(count, [&](std::int64_t sequence) { return count == 1 ? 0 : sequence * last / (count - 1); });
  }

  /// The batches of the steps 0 … steps - 1.
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;
    /// At `step` of `loader`, which must outlive it.
    iterator(TokenLoader& loader, std::int64_t step) : loader_(&loader), step_(step) {}
    Batch operator*() const { return loader_->load(step_); }
    iterator& operator++() {
      ++step_;
      return *this;
    }
    void operator++(int) { ++step_; }
    friend bool operator==(const iterator& a, const iterator& b) { return a.step_ == b.step_; }

   private:
    TokenLoader* loader_;
    std::int64_t step_;
  };
  iterator begin() { return {*this, 0}; }
  iterator end() { return {*this, options_.steps}; }

 private:
  using Tokens = Kokkos::View<std::int32_t*, typename Space::memory_space>;

  std::int64_t size() const { return static_cast<std::int64_t>(text_.size()); }

  template <class Position>
  Batch fill(std::int64_t sequences, Position&& position) {
    const Range share = partition(sequences, replicas_, replica_);
    const auto count = static_cast<std::size_t>(share.size() * options_.context);
    if (tokens_.extent(0) != count) {
      tokens_ = Tokens(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("kerkis::tokens")), count);
      targets_ = Tokens(Kokkos::view_alloc(Kokkos::WithoutInitializing, std::string("kerkis::targets")), count);
      host_tokens_ = Kokkos::create_mirror_view(tokens_);
      host_targets_ = Kokkos::create_mirror_view(targets_);
    }
    std::size_t row = 0;
    for (std::int64_t sequence = share.begin; sequence < share.end; ++sequence) {
      const std::uint8_t* const from = text_.data() + position(sequence);
      for (std::int64_t t = 0; t < options_.context; ++t, ++row) {
        host_tokens_(row) = from[t];
        host_targets_(row) = from[t + 1];
      }
    }
    Kokkos::deep_copy(tokens_, host_tokens_);
    Kokkos::deep_copy(targets_, host_targets_);
    return {tokens_, targets_, share.begin, options_.context};
  }

  std::vector<std::uint8_t> text_;
  TokenLoaderOptions options_;
  int replicas_, replica_;
  Tokens tokens_, targets_;
  decltype(Kokkos::create_mirror_view(std::declval<const Tokens&>())) host_tokens_, host_targets_;
};

}  // namespace kerkis
