// SPDX-License-Identifier: Apache-2.0
#pragma once

// The collectives by plain MPI calls on arrays, and the elements that tests send.

#include <kerkis/comm/reduction.hpp>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <vector>

namespace matrix {

/// A struct that reductions know only by a functor.
struct Longest {
  double length;
  int owner;
  char mark;
  friend bool operator==(const Longest&, const Longest&) = default;
};
/// Does not commute: the mark of the lower rank stays.
struct Longer {
  static constexpr bool commutes = false;
  Longest operator()(const Longest& a, const Longest& b) const {
    return {a.length < b.length ? b.length : a.length, a.owner * 3 + b.owner, a.mark};
  }
};

/// So that std::vector<Boxed<bool>> is an array.
template <class T>
struct Boxed {
  T value;
};

/// What `rank` has at `i`: small, so that sums and products are exact in every type.
template <class T>
T element(int rank, std::size_t i) {
  const int small = static_cast<int>((i * 5 + static_cast<std::size_t>(rank) * 3 + i / 7) % 7);  // 0 to 6
  if constexpr (std::is_same_v<T, Longest>)
    return {static_cast<double>(small), rank * 2 + 1, static_cast<char>('a' + small)};
  else if constexpr (kerkis::comm::is_complex<T>)
    return T(static_cast<typename T::value_type>(small - 3), static_cast<typename T::value_type>(small % 3 - 1));
  else if constexpr (std::is_same_v<T, bool>)
    return small % 2 != 0;
  else if constexpr (std::is_unsigned_v<T>)
    return static_cast<T>(small % 4);
  else
    return static_cast<T>(static_cast<float>(small - 3));
}
template <class T>
std::vector<Boxed<T>> elements(int rank, std::size_t count) {
  std::vector<Boxed<T>> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i].value = element<T>(rank, i);
  return all;
}

namespace plain {

template <class T>
using FunctorOf = std::conditional_t<std::is_same_v<T, Longest>, Longer, kerkis::comm::Named>;

inline void wait(MPI_Request& request) { kerkis::comm::completes_within(request, std::chrono::hours(1)); }

/// The type and the operation of `Longest`, for as long as it lives.
struct LongestInMpi {
  static inline MPI_Datatype type = MPI_DATATYPE_NULL;
  static inline MPI_Op operation = MPI_OP_NULL;

  LongestInMpi() {
    MPI_Type_contiguous(static_cast<int>(sizeof(Longest)), MPI_BYTE, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(&apply, 0, &operation);
  }
  LongestInMpi(const LongestInMpi&) = delete;
  LongestInMpi& operator=(const LongestInMpi&) = delete;
  ~LongestInMpi() {
    MPI_Type_free(&type);
    MPI_Op_free(&operation);
  }
  static void apply(void* in, void* in_out, int* length, MPI_Datatype*) {
    for (int i = 0; i < *length; ++i) {
      Longest& b = static_cast<Longest*>(in_out)[i];
      b = Longer()(static_cast<const Longest*>(in)[i], b);
    }
  }
};

/// MPI's own type, said once more: half types are floats here, structs bytes.
template <class T>
MPI_Datatype type() {
  using std::is_same_v;
  if constexpr (is_same_v<T, float> || kerkis::comm::is_half<T>) return MPI_FLOAT;
  if constexpr (is_same_v<T, double>) return MPI_DOUBLE;
  if constexpr (is_same_v<T, long double>) return MPI_LONG_DOUBLE;
  if constexpr (is_same_v<T, bool>) return MPI_C_BOOL;
  if constexpr (is_same_v<T, char>) return MPI_SIGNED_CHAR;
  if constexpr (is_same_v<T, std::int8_t>) return MPI_INT8_T;
  if constexpr (is_same_v<T, std::int16_t>) return MPI_INT16_T;
  if constexpr (is_same_v<T, std::int32_t>) return MPI_INT32_T;
  if constexpr (is_same_v<T, std::int64_t>) return MPI_INT64_T;
  if constexpr (is_same_v<T, std::uint8_t>) return MPI_UINT8_T;
  if constexpr (is_same_v<T, std::uint16_t>) return MPI_UINT16_T;
  if constexpr (is_same_v<T, std::uint32_t>) return MPI_UINT32_T;
  if constexpr (is_same_v<T, std::uint64_t>) return MPI_UINT64_T;
  if constexpr (is_same_v<T, Kokkos::complex<float>>) return MPI_C_FLOAT_COMPLEX;
  if constexpr (is_same_v<T, Kokkos::complex<double>>) return MPI_C_DOUBLE_COMPLEX;
  if constexpr (is_same_v<T, Longest>) return LongestInMpi::type;
}

struct Choice {
  kerkis::Reduction reduction;
  MPI_Op native;
};
template <class T>
const std::vector<Choice>& reductions() {
  using enum kerkis::Reduction;
  static const std::vector<Choice> choices = []() -> std::vector<Choice> {
    if constexpr (std::is_same_v<T, Longest>) {
      return {{sum, LongestInMpi::operation}};
    } else if constexpr (std::is_same_v<T, bool>) {
      return {{logical_and, MPI_LAND}, {logical_or, MPI_LOR},   {logical_xor, MPI_LXOR}, {bitwise_and, MPI_LAND},
              {bitwise_or, MPI_LOR},   {bitwise_xor, MPI_LXOR}, {minimum, MPI_LAND},     {maximum, MPI_LOR}};
    } else if constexpr (kerkis::comm::is_complex<T>) {
      return {{sum, MPI_SUM}, {product, MPI_PROD}};
    } else if constexpr (std::is_integral_v<T>) {
      return {{sum, MPI_SUM},          {product, MPI_PROD},    {minimum, MPI_MIN},      {maximum, MPI_MAX},
              {logical_and, MPI_LAND}, {logical_or, MPI_LOR},  {logical_xor, MPI_LXOR}, {bitwise_and, MPI_BAND},
              {bitwise_or, MPI_BOR},   {bitwise_xor, MPI_BXOR}};
    } else {
      return {{sum, MPI_SUM}, {product, MPI_PROD}, {minimum, MPI_MIN}, {maximum, MPI_MAX}};
    }
  }();
  return choices;
}

/// Calls f(send, receive) with arrays that MPI knows: the half types go as floats.
template <class T, class F>
void call(const std::vector<Boxed<T>>& send, std::vector<Boxed<T>>& receive, F&& f) {
  if constexpr (kerkis::comm::is_half<T>) {
    std::vector<float> from, to(receive.size());
    for (const auto& x : send) from.push_back(static_cast<float>(x.value));
    f(from.data(), to.data());
    for (std::size_t i = 0; i < to.size(); ++i) receive[i].value = static_cast<T>(to[i]);
  } else {
    f(send.data(), receive.data());
  }
}

inline std::vector<int> places(const std::vector<std::size_t>& sizes) {
  std::vector<int> begins;
  int begin = 0;
  for (const std::size_t size : sizes) {
    begins.push_back(begin);
    begin += static_cast<int>(size);
  }
  return begins;
}
inline std::vector<int> ints(const std::vector<std::size_t>& sizes) { return {sizes.begin(), sizes.end()}; }

/// `op`: in the order of matrix::Op.
template <class T>
void whole(int op, const std::vector<Boxed<T>>& send, std::vector<Boxed<T>>& receive, MPI_Op operation, int root) {
  const int count = static_cast<int>(send.size());
  if (op == 9) receive = send;
  call<T>(send, receive, [&](const void* from, void* to) {
    MPI_Request request = MPI_REQUEST_NULL;
    if (op == 0) MPI_Iallreduce(from, to, count, type<T>(), operation, MPI_COMM_WORLD, &request);
    if (op == 1) MPI_Ireduce(from, to, count, type<T>(), operation, root, MPI_COMM_WORLD, &request);
    if (op == 3) MPI_Iscan(from, to, count, type<T>(), operation, MPI_COMM_WORLD, &request);
    if (op == 4) MPI_Iexscan(from, to, count, type<T>(), operation, MPI_COMM_WORLD, &request);
    if (op == 9) {
      std::memcpy(to, from, send.size() * (kerkis::comm::is_half<T> ? sizeof(float) : sizeof(T)));
      MPI_Ibcast(to, count, type<T>(), root, MPI_COMM_WORLD, &request);
    }
    wait(request);
  });
}

template <class T>
void reduce_scatter(const std::vector<std::size_t>& sizes, const std::vector<Boxed<T>>& send,
                    std::vector<Boxed<T>>& receive, MPI_Op operation) {
  call<T>(send, receive, [&](const void* from, void* to) {
    const auto counts = ints(sizes);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ireduce_scatter(from, to, counts.data(), type<T>(), operation, MPI_COMM_WORLD, &request);
    wait(request);
  });
}

template <class T>
void all_gather(const std::vector<std::size_t>& sizes, const std::vector<Boxed<T>>& send,
                std::vector<Boxed<T>>& receive) {
  call<T>(send, receive, [&](const void* from, void* to) {
    const auto counts = ints(sizes), begins = places(sizes);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iallgatherv(from, static_cast<int>(send.size()), type<T>(), to, counts.data(), begins.data(), type<T>(),
                    MPI_COMM_WORLD, &request);
    wait(request);
  });
}

template <class T>
void scatter(const std::vector<std::size_t>& sizes, const std::vector<Boxed<T>>& send, std::vector<Boxed<T>>& receive,
             int root) {
  call<T>(send, receive, [&](const void* from, void* to) {
    const auto counts = ints(sizes), begins = places(sizes);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Iscatterv(from, counts.data(), begins.data(), type<T>(), to, static_cast<int>(receive.size()), type<T>(), root,
                  MPI_COMM_WORLD, &request);
    wait(request);
  });
}

template <class T>
void all_to_all(const std::vector<std::size_t>& sent, const std::vector<std::size_t>& received,
                const std::vector<Boxed<T>>& send, std::vector<Boxed<T>>& receive) {
  call<T>(send, receive, [&](const void* from, void* to) {
    const auto sc = ints(sent), sd = places(sent), rc = ints(received), rd = places(received);
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ialltoallv(from, sc.data(), sd.data(), type<T>(), to, rc.data(), rd.data(), type<T>(), MPI_COMM_WORLD,
                   &request);
    wait(request);
  });
}

}  // namespace plain
}  // namespace matrix
