// SPDX-License-Identifier: Apache-2.0
//
// Reads hexadecimal digits. absl::BytesToHexString writes them.
#pragma once

#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/string_view.h"

namespace duetime::base {

// Returns the bytes that `digits` spell, two digits for each byte. nullopt unless all of them are
// pairs of hexadecimal digits. Abseil's own function differs between the versions that we build
// with: in the older ones it does not report a wrong digit, in the newer ones that form is
// deprecated.
inline std::optional<std::string> HexToBytes(absl::string_view digits) {
  const auto value = [](char digit) {
    return absl::ascii_isdigit(static_cast<unsigned char>(digit))
               ? digit - '0'
               : absl::ascii_tolower(static_cast<unsigned char>(digit)) - 'a' + 10;
  };
  if (digits.size() % 2 != 0) return std::nullopt;
  std::string bytes;
  bytes.reserve(digits.size() / 2);
  for (const char digit : digits) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(digit))) return std::nullopt;
  }
  for (; !digits.empty(); digits.remove_prefix(2)) {
    bytes.push_back(static_cast<char>(value(digits[0]) * 16 + value(digits[1])));
  }
  return bytes;
}

}  // namespace duetime::base
