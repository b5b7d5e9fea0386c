// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>

namespace kerkis::schedule::detail {

/// A value-initialised array of fixed size on the heap, indexed by int. In a constant expression a std::vector costs
/// clang some twenty steps per element only to be made; this costs none, and a table of 1,024 computations has to be
/// proven in a million.
template <class T>
class Array {
 public:
  constexpr explicit Array(int size) : data_(new T[static_cast<unsigned>(size)]{}) {}
  constexpr ~Array() { delete[] data_; }
  constexpr Array(Array&& other) noexcept : data_(std::exchange(other.data_, nullptr)) {}
  constexpr Array& operator=(Array&& other) noexcept {
    std::swap(data_, other.data_);
    return *this;
  }

  constexpr T& operator[](int index) { return data_[index]; }
  constexpr const T& operator[](int index) const { return data_[index]; }

 private:
  T* data_;
};

}  // namespace kerkis::schedule::detail
