// SPDX-License-Identifier: Apache-2.0
//
// ByteReader: makes values out of a fuzzer's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace duetime::test {

// Reads an input from its front. Past the end everything is zero, so that every input means
// something. Thread safety: confined.
class ByteReader {
 public:
  ByteReader(const uint8_t* data, size_t size) : data_(data), left_(size) {}

  bool empty() const { return left_ == 0; }

  uint8_t Byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }

  // Eight bytes, the first one lowest.
  uint64_t Word() {
    uint64_t word = 0;
    for (int shift = 0; shift < 64; shift += 8) word |= uint64_t{Byte()} << shift;
    return word;
  }

  // Small or large with few bytes: two bytes of value, shifted by a third.
  uint64_t Magnitude() {
    const uint64_t value = Byte() | (uint64_t{Byte()} << 8);
    return value << (Byte() % 49);
  }

  // Up to `size` bytes, fewer at the end.
  std::string Bytes(size_t size) {
    std::string bytes;
    while (bytes.size() < size && left_ > 0) bytes.push_back(static_cast<char>(Byte()));
    return bytes;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

}  // namespace duetime::test
