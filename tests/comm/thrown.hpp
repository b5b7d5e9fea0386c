// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <kerkis/core/error.hpp>

#include <exception>
#include <source_location>
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

/// What `f` throws, an InputError of an operation that is called in the file of `here`, without that place.
template <class F>
std::string refusal(F&& f, std::source_location here = std::source_location::current()) {
  std::string text = thrown<kerkis::InputError>(f);
  const std::string site = kerkis::call_site(here), words = " called at " + site.substr(0, site.find(':') + 1);
  const std::size_t begin = text.find(words);
  if (begin == std::string::npos) return "without a call site: " + text;
  return text.erase(begin, text.find_first_not_of("0123456789", begin + words.size()) - begin);
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }
