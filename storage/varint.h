// SPDX-License-Identifier: Apache-2.0
//
// Numbers in few bytes, as Protocol Buffers write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace duetime::storage {

// Appends 7 bits in each byte, the lowest first. The top bit of a byte is set if another byte
// follows.
inline void AppendVarint(uint64_t value, std::string* bytes) {
  for (; value >= 0x80; value >>= 7) bytes->push_back(static_cast<char>(value | 0x80));
  bytes->push_back(static_cast<char>(value));
}

// Takes a number from the front. nullopt for bytes that AppendVarint does not write.
inline std::optional<uint64_t> TakeVarint(absl::string_view* bytes) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes->empty(); shift += 7) {
    const auto byte = static_cast<uint8_t>(bytes->front());
    bytes->remove_prefix(1);
    const uint64_t bits = byte & 0x7f;
    // No bit beyond the 64th, and no zero at the end: a number has one encoding.
    if (bits << shift >> shift != bits || (byte == 0 && shift != 0)) return std::nullopt;
    value |= bits << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

// Small numbers for small amounts of either sign.
inline uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
inline int64_t UnZigZag(uint64_t value) {
  return static_cast<int64_t>((value >> 1) ^ (0 - (value & 1)));
}

}  // namespace duetime::storage
