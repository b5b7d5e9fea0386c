// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <string>

/// What `f` throws, which must be an E.
template <class E, class F>
std::string thrown(F&& f) {
  try {
    f();
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    return std::string("another type: ") + error.what();
  }
  return "nothing";
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
