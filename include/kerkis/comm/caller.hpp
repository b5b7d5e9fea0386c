// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <source_location>
#include <string>

#include <kerkis/core/error.hpp>

namespace kerkis::comm {

/// The call of an operation, for what refuses it: "send called at trainer.hpp:88". As cheap to pass as its name.
struct Caller {
  const char* name;
  std::source_location where;
};
inline void append(std::string& text, const Caller& caller) {
  text += caller.name;
  if (caller.where.line() != 0) text += message(" called at ", call_site(caller.where));
}

}  // namespace kerkis::comm
