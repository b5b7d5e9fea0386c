// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <charconv>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace kerkis {

/// The one family of exceptions of the library. It is thrown before anything is changed, or says what was.
class Error : public std::runtime_error {
 public:
  /// `what`: the text. The others are what the functions of these names return.
  explicit Error(const std::string& what, int rank = -1, std::string operation = {}, int mpi_class = 0)
      : std::runtime_error(what), rank_(rank), operation_(std::move(operation)), mpi_class_(mpi_class) {}

  /// The rank where the failure began, in the root communicator; -1 if every rank sees the same failure by itself.
  int rank() const noexcept { return rank_; }
  /// The operation that failed ("all_reduce"), empty outside communication.
  const std::string& operation() const noexcept { return operation_; }
  /// The MPI error class, 0 (MPI_SUCCESS) if MPI did not fail.
  int mpi_class() const noexcept { return mpi_class_; }

 private:
  int rank_;
  std::string operation_;
  int mpi_class_;
};

/// What the caller asked for makes no sense: a plan that does not fit, a bad flag, an unusable file. `run` ends with
/// status 2.
class InputError : public Error {
 public:
  using Error::Error;
};

/// Communication failed: an MPI error or a deadline.
class CommError : public Error {
 public:
  using Error::Error;
  /// With what is known of an operation that was under way.
  CommError(const std::string& what, int rank, std::string operation, int mpi_class, std::string axis, int peer,
            std::source_location where = {})
      : Error(what, rank, std::move(operation), mpi_class), axis_(std::move(axis)), peer_(peer), where_(where) {}

  /// The name of its communicator ("data"); empty if no operation failed.
  const std::string& axis() const noexcept { return axis_; }
  /// Of a hand-off: the other rank, in that communicator; of both ways at once the one that it receives from, if there
  /// is one. Else -1.
  int peer() const noexcept { return peer_; }
  /// Where the program calls it; line 0 if that is not known here, as of the operation of another rank.
  const std::source_location& where() const noexcept { return where_; }

 private:
  std::string axis_;
  int peer_ = -1;
  std::source_location where_{};
};

/// Another rank has failed and said so; the text is its own.
class PeerError : public CommError {
 public:
  using CommError::CommError;
};

namespace detail {

inline void append(std::string& text, std::string_view part) { text += part; }
inline void append(std::string& text, char part) { text += part; }
template <class Number>
  requires std::is_arithmetic_v<Number>
void append(std::string& text, Number part) {
  if constexpr (std::is_integral_v<Number>) {
    text += std::to_string(part);
  } else if (part != part) {
    text += "nan";  // of either sign
  } else {
    char digits[64];
    text += std::string_view(digits, std::to_chars(digits, digits + sizeof digits, part).ptr);
  }
}

}  // namespace detail

/// Joins its arguments, texts and numbers, to one string, for messages: message("width ", 3, " is odd"). Floating-point
/// numbers have the fewest digits that tell them from all others. Other types join by an `append` of their namespace.
template <class... Parts>
std::string message(const Parts&... parts) {
  using detail::append;
  std::string text;
  (append(text, parts), ...);
  return text;
}

namespace detail {

// By value, and apart: what calls `require` needs no memory for its arguments, and no cache lines for what it never
// does.
template <class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void refuse(Parts... parts) {
  throw InputError(message(parts...));
}

}  // namespace detail

/// Throws InputError with the joined parts unless `condition` holds.
template <class... Parts>
[[gnu::always_inline]] inline void require(bool condition, const Parts&... parts) {
  if (!condition) [[unlikely]]
    detail::refuse(parts...);
}

/// "file.hpp:88", without the folders, for messages.
inline std::string call_site(const std::source_location& where) {
  std::string_view file = where.file_name();
  if (const auto slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return message(file, ":", where.line());
}

}  // namespace kerkis
