// SPDX-License-Identifier: Apache-2.0
//
// Crockford's base32, in lower case: the digits of ids and lease tokens in text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace duetime::storage {

// Without i, l, o and u, which people misread.
inline constexpr char kBase32Alphabet[] = "0123456789abcdefghjkmnpqrstvwxyz";

// The value of each character, or -1.
inline constexpr std::array<int8_t, 256> kBase32Digits = [] {
  std::array<int8_t, 256> digits{};
  for (int8_t& digit : digits) digit = -1;
  for (size_t i = 0; i < 32; ++i) {
    digits[static_cast<unsigned char>(kBase32Alphabet[i])] = static_cast<int8_t>(i);
  }
  return digits;
}();

}  // namespace duetime::storage
