// SPDX-License-Identifier: Apache-2.0
//
// The characters of the names of topics and other objects.
#pragma once

#include "absl/strings/ascii.h"

namespace duetime::base {

// True for a letter, a digit, and . _ - : /
inline bool IsNameChar(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-' ||
         c == ':' || c == '/';
}

}  // namespace duetime::base
