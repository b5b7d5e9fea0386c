// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include <kerkis/core/error.hpp>

/// What the programs here ask of numbers and files on their command lines. A check returns what is wrong, or nothing.
namespace command_line {

/// Decimal digits only: "010" and "0x10" would be read as C reads them.
inline std::string check_whole(const std::string& text, std::int64_t least, std::int64_t most) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  const bool is_octal = text.size() > 1 && text[0] == '0';
  if (error == std::errc() && rest == end && !is_octal && value >= least && value <= most) return {};
  return kerkis::message(text, " is no whole number from ", least, " to ", most);
}

inline std::string check_real(const std::string& text, double least, double most) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc() && rest == end && value >= least && value <= most) return {};
  return kerkis::message(text, " is no number from ", least, " to ", most);
}

struct File {
  const char* flag;
  std::string path;  ///< empty: not given
};

inline bool is_same(const std::string& a, const std::string& b) {
  std::error_code error;
  if (std::filesystem::equivalent(a, b, error)) return true;
  // Files that are not there yet; a relative name without a folder stays as it is otherwise.
  const auto name = [&error](const std::string& path) {
    return std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  };
  return !name(a).empty() && name(a) == name(b);
}

/// A flag that is given has a name, and no file has two flags, under whatever names: one would overwrite the other.
inline std::string check_files(const CLI::App& app, const std::vector<File>& files) {
  for (const File& file : files)
    if (app.count(file.flag) > 0 && file.path.empty())
      return kerkis::message(file.flag, ": the name of the file is empty");
  for (std::size_t i = 0; i < files.size(); ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (!files[i].path.empty() && !files[j].path.empty() && is_same(files[i].path, files[j].path))
        return kerkis::message(files[j].flag, " and ", files[i].flag, " name the same file");
  return {};
}

/// Whether a file that is written at the end can be. It is left as it is; empty if there was none.
inline std::string check_writable(const std::string& path) {
  const std::ofstream file(path, std::ios::app);
  return file.is_open() ? std::string() : kerkis::message("'", path, "' can't be written: ", std::strerror(errno));
}

}  // namespace command_line
