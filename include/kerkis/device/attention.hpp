// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Kokkos_Core.hpp>
#include <cstdint>
#include <limits>

#include <kerkis/core/partition.hpp>
#include <kerkis/device/dropout.hpp>
#include <kerkis/device/gemm.hpp>
#include <kerkis/device/lanes.hpp>
#include <kerkis/device/launch.hpp>
#include <kerkis/device/math.hpp>

namespace kerkis::device {

/// Causal scaled dot-product attention of `heads` heads over sequences of `context` rows, forward and backward, without
/// storing probabilities: the logarithm of each row's sum is kept and they are computed anew, block of queries by block
/// of queries (Dao, Fu, Ermon, Rudra, Ré 2022, arXiv:2205.14135); the keys after a block are skipped.
///
/// An item of work is a (sequence, head); a worker does a contiguous share of them in its own scratch memory. Items are
/// independent, so the number of workers changes nothing.
template <class T>
struct Attention {
  std::int64_t sequences,     ///< of the microbatch
      heads,                  ///< of this rank
      context,                ///< rows of a sequence
      head_width;             ///< columns of one head
  std::int64_t first_sample,  ///< global index of the first sequence, for dropout
      first_head,             ///< global index of the first head, for dropout
      all_heads;              ///< of all ranks, for dropout
  DropoutMask<T> mask;        ///< of the probabilities
  T* qkv;                     ///< rows × 3 × heads × head_width: queries, keys, values
  T* logarithms;              ///< sequences × heads × context
  T* scratch;                 ///< workers × forward_scratch() or backward_scratch() elements
  std::int64_t workers;       ///< into how many shares the items are cut

  /// How many (sequence, head)s there are.
  KOKKOS_FUNCTION std::int64_t items() const { return sequences * heads; }
  /// Elements from a row of `qkv` to the next.
  KOKKOS_FUNCTION std::int64_t row_stride() const { return 3 * heads * head_width; }
  /// Queries in one block: few enough to skip most of the causal half, enough for the products.
  KOKKOS_FUNCTION std::int64_t block() const { return context <= 32 ? context : context <= 128 ? 32 : 64; }
  /// Columns of a block of scores, whole lanes.
  KOKKOS_FUNCTION std::int64_t padded() const { return (context + lanes - 1) / lanes * lanes; }
  /// Elements of scratch memory that one worker needs forward.
  std::int64_t forward_scratch() const { return block() * padded(); }
  /// The same backward.
  std::int64_t backward_scratch() const { return 2 * block() * padded() + 2 * context * head_width; }

  /// The keys that row `query` works on: up to itself, in whole lanes.
  KOKKOS_FORCEINLINE_FUNCTION static int whole_lanes(std::int64_t query) {
    return static_cast<int>((query + lanes) / lanes * lanes);
  }
  /// The global index, in the mask, of the first probability of a row of an item.
  KOKKOS_FORCEINLINE_FUNCTION std::uint64_t dropout_index(std::int64_t item, std::int64_t query) const {
    const std::int64_t head = (first_sample + item / heads) * all_heads + first_head + item % heads;
    return static_cast<std::uint64_t>((head * context + query) * context);
  }
};

namespace detail {

template <class T>
void host_product(std::int64_t rows, std::int64_t columns, std::int64_t depth, Strided<const T> a, Strided<const T> b,
                  T* c, std::int64_t c_row, bool add) {
  if (is_small_product(rows, columns, depth)) return small_product<T>(rows, columns, depth, a, b, c, c_row, add);
  const bool ta = a.column != 1, tb = b.column != 1;
  blas_product<T>(ta ? Transpose::yes : Transpose::no, tb ? Transpose::yes : Transpose::no, rows, columns, depth, T(1),
                  a.data, ta ? a.column : a.row, b.data, tb ? b.column : b.row, add ? T(1) : T(0), c, c_row);
}

/// A thread of a device has no room to pack operands in.
template <class T>
KOKKOS_FUNCTION void device_product(std::int64_t rows, std::int64_t columns, std::int64_t depth, Strided<const T> a,
                                    Strided<const T> b, T* c, std::int64_t c_row, bool add) {
  for (std::int64_t i = 0; i < rows; ++i)
    for (std::int64_t j = 0; j < columns; ++j) {
      const T sum = product_element(depth, a, b, i, j);
      c[i * c_row + j] = add ? c[i * c_row + j] + sum : sum;
    }
}

/// C = A B, plus C if `add`, inside a kernel.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION void kernel_product(std::int64_t rows, std::int64_t columns, std::int64_t depth,
                                                Strided<const T> a, Strided<const T> b, T* c, std::int64_t c_row,
                                                bool add) {
  KOKKOS_IF_ON_HOST((host_product<T>(rows, columns, depth, a, b, c, c_row, add);))
  KOKKOS_IF_ON_DEVICE((device_product<T>(rows, columns, depth, a, b, c, c_row, add);))
}

template <class T>
struct AttentionForward {
  Attention<T> shape;
  const T* bias;
  T* out;

  KOKKOS_FUNCTION void operator()(std::int64_t worker) const {
    const Range share = partition(shape.items(), shape.workers, worker);
    T* const scratch = shape.scratch + worker * (shape.block() * shape.padded());
    for (std::int64_t item = share.begin; item < share.end; ++item) one(item, scratch);
  }

  KOKKOS_FUNCTION void one(std::int64_t item, T* scores) const {
    const std::int64_t d = shape.head_width, stride = shape.row_stride(), width = shape.heads * d,
                       padded = shape.padded();
    const std::int64_t first_row = item / shape.heads * shape.context, offset = item % shape.heads * d;
    T* const q = shape.qkv + first_row * stride + offset;
    T* const k = q + width;
    T* const v = k + width;
    T* const o = out + first_row * width + offset;
    for (std::int64_t i = 0; i < shape.context; ++i)
      for (int part = 0; part < 3; ++part) {
        T* const values = q + i * stride + part * width;
        for (std::int64_t c = 0; c < d; ++c) values[c] += bias[part * width + offset + c];
      }
    const T scale = T(1) / Kokkos::sqrt(static_cast<T>(d));
    for (std::int64_t begin = 0; begin < shape.context; begin += shape.block()) {
      const std::int64_t end = begin + shape.block() < shape.context ? begin + shape.block() : shape.context;
      kernel_product<T>(end - begin, end, d, {q + begin * stride, stride, 1}, {k, 1, stride}, scores, padded, false);
      for (std::int64_t i = begin; i < end; ++i) {
        T* const s = scores + (i - begin) * padded;
        const int query = static_cast<int>(i), length = shape.whole_lanes(i);
        const T maximum = maximum_of<T>(length, std::numeric_limits<T>::lowest(), [=](std::int64_t j) {
          return static_cast<int>(j) <= query ? s[j] : std::numeric_limits<T>::lowest();
        });
        for (int j = 0; j < length; ++j) {
          const T weight = exp(scale * (s[j] - maximum));
          s[j] = j <= query ? weight : T(0);
        }
        const T sum = sum_of<T>(length, [=](std::int64_t j) { return s[j]; });
        const T inverse = T(1) / sum;
        for (int j = 0; j < length; ++j) s[j] *= inverse;
        if (shape.mask.active()) shape.mask.apply(shape.dropout_index(item, i), i + 1, s, s);
        for (std::int64_t j = length; j < end; ++j) s[j] = T(0);
        shape.logarithms[item * shape.context + i] = scale * maximum + Kokkos::log(sum);
      }
      kernel_product<T>(end - begin, d, end, {scores, padded, 1}, {v, stride, 1}, o + begin * width, width, false);
    }
  }
};

template <class T>
struct AttentionBackward {
  Attention<T> shape;
  const T* out;
  const T* out_gradient;

  KOKKOS_FUNCTION void operator()(std::int64_t worker) const {
    const Range share = partition(shape.items(), shape.workers, worker);
    T* const scratch =
        shape.scratch + worker * (2 * shape.block() * shape.padded() + 2 * shape.context * shape.head_width);
    for (std::int64_t item = share.begin; item < share.end; ++item) one(item, scratch);
  }

  KOKKOS_FUNCTION void one(std::int64_t item, T* scratch) const {
    const std::int64_t d = shape.head_width, stride = shape.row_stride(), width = shape.heads * d,
                       padded = shape.padded();
    const std::int64_t first_row = item / shape.heads * shape.context, offset = item % shape.heads * d,
                       context = shape.context;
    T* const q = shape.qkv + first_row * stride + offset;
    T* const k = q + width;
    T* const v = k + width;
    const T* const o = out + first_row * width + offset;
    const T* const go = out_gradient + first_row * width + offset;
    T* const probabilities = scratch;
    T* const gradients = probabilities + shape.block() * padded;
    T* const gk = gradients + shape.block() * padded;
    T* const gv = gk + context * d;
    // From the last block, which has all keys and so begins the sums over queries. A block's queries are overwritten by
    // their gradients when nothing needs them any more; keys and values at the end.
    const std::int64_t last = (context - 1) / shape.block() * shape.block();
    for (std::int64_t begin = last; begin >= 0; begin -= shape.block()) {
      const std::int64_t end = begin + shape.block() < context ? begin + shape.block() : context, rows = end - begin;
      const bool add = begin != last;
      T* const query = q + begin * stride;
      kernel_product<T>(rows, end, d, {query, stride, 1}, {k, 1, stride}, probabilities, padded, false);
      kernel_product<T>(rows, end, d, {go + begin * width, width, 1}, {v, 1, stride}, gradients, padded, false);
      for (std::int64_t i = begin; i < end; ++i)
        softmax_row(item, i, end, o + i * width, go + i * width, probabilities + (i - begin) * padded,
                    gradients + (i - begin) * padded);
      kernel_product<T>(end, d, rows, {probabilities, 1, padded}, {go + begin * width, width, 1}, gv, d, add);
      kernel_product<T>(end, d, rows, {gradients, 1, padded}, {query, stride, 1}, gk, d, add);
      kernel_product<T>(rows, d, end, {gradients, padded, 1}, {k, stride, 1}, query, stride, false);
    }
    for (std::int64_t i = 0; i < context; ++i)
      for (std::int64_t c = 0; c < d; ++c) {
        k[i * stride + c] = gk[i * d + c];
        v[i * stride + c] = gv[i * d + c];
      }
  }

  /// p: scores become the (dropped) probabilities. g: their gradient becomes that of the scores.
  KOKKOS_FORCEINLINE_FUNCTION void softmax_row(std::int64_t item, std::int64_t query, std::int64_t end, const T* o,
                                               const T* go, T* p, T* g) const {
    const T scale = T(1) / Kokkos::sqrt(static_cast<T>(shape.head_width));
    const T logarithm = shape.logarithms[item * shape.context + query];
    const T dot = sum_of<T>(shape.head_width, [=](std::int64_t c) { return o[c] * go[c]; });
    const int last = static_cast<int>(query), length = shape.whole_lanes(query);
    if (!shape.mask.active()) {
      for (int j = 0; j < length; ++j) {
        const T probability = exp(scale * p[j] - logarithm);
        const T gradient = probability * (g[j] - dot) * scale;
        p[j] = j <= last ? probability : T(0);
        g[j] = j <= last ? gradient : T(0);
      }
    } else {
      constexpr int chunk = DropoutMask<T>::chunk;
      T factor[chunk];
      const std::uint64_t first = shape.dropout_index(item, query);
      for (int done = 0; done < length; done += chunk) {
        const int part = length - done < chunk ? length - done : chunk;
        shape.mask.factors(first + static_cast<std::uint64_t>(done), part, factor);
        for (int j = 0; j < part; ++j) {
          const T probability = exp(scale * p[done + j] - logarithm);
          const T gradient = probability * (factor[j] * g[done + j] - dot) * scale;
          p[done + j] = done + j <= last ? probability * factor[j] : T(0);
          g[done + j] = done + j <= last ? gradient : T(0);
        }
      }
    }
    for (std::int64_t j = length; j < end; ++j) p[j] = g[j] = T(0);
  }
};

}  // namespace detail

/// Adds `bias` (3 × heads × head_width) to qkv in place, then out (rows × heads × head_width) = attention. `scratch`
/// has room for workers × forward_scratch() elements.
template <class ExecutionSpace, class T>
void attention_forward(const ExecutionSpace& execution, const Attention<T>& attention, const T* bias, T* out) {
  if (attention.items() > 0)
    launch("kerkis::attn", execution, attention.workers, detail::AttentionForward<T>{attention, bias, out});
}

/// Overwrites qkv (with its bias) by its gradient. `scratch` has room for workers × backward_scratch() elements.
template <class ExecutionSpace, class T>
void attention_backward(const ExecutionSpace& execution, const Attention<T>& attention, const T* out,
                        const T* out_gradient) {
  if (attention.items() > 0)
    launch("kerkis::attn_b", execution, attention.workers, detail::AttentionBackward<T>{attention, out, out_gradient});
}

}  // namespace kerkis::device
