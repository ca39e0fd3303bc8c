// SPDX-License-Identifier: Apache-2.0
//
// ByteReader: turns a fuzzer's bytes into values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace duetime::test {

// Reads an input from its front. Past the end every byte is zero, so that every input is valid.
// Thread safety: confined.
class ByteReader {
 public:
  ByteReader(const uint8_t* data, size_t size) : data_(data), left_(size) {}

  bool empty() const { return left_ == 0; }

  uint8_t Byte() {
    if (left_ == 0) return 0;
    --left_;
    return *data_++;
  }

  // Eight bytes, little-endian.
  uint64_t Word() {
    uint64_t word = 0;
    for (int shift = 0; shift < 64; shift += 8) word |= uint64_t{Byte()} << shift;
    return word;
  }

  // A small or a large number from few bytes: two bytes of value, shifted left by a third byte.
  uint64_t Magnitude() {
    const uint64_t value = Byte() | (uint64_t{Byte()} << 8);
    return value << (Byte() % 49);
  }

  // The next `size` bytes, or fewer at the end of the input.
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
