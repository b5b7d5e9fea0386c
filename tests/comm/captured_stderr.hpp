// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <cstdio>
#include <string>

/// Keeps what is printed on stderr, from its beginning to `text()` or its end.
class CapturedStderr {
 public:
  CapturedStderr() {
    std::fflush(stderr);
    if (file_ != nullptr) dup2(fileno(file_), STDERR_FILENO);
  }
  CapturedStderr(const CapturedStderr&) = delete;
  CapturedStderr& operator=(const CapturedStderr&) = delete;
  ~CapturedStderr() {
    restore();
    close(before_);
    if (file_ != nullptr) std::fclose(file_);
  }

  /// The first 4,096 bytes.
  std::string text() {
    restore();
    std::string text(4096, '\0');
    if (file_ == nullptr) return {};
    std::rewind(file_);
    text.resize(std::fread(text.data(), 1, text.size(), file_));
    return text;
  }

 private:
  void restore() const {
    std::fflush(stderr);
    dup2(before_, STDERR_FILENO);
  }

  std::FILE* file_ = std::tmpfile();
  int before_ = dup(STDERR_FILENO);
};
