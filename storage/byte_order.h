// SPDX-License-Identifier: Apache-2.0
//
// Converts fixed-width unsigned integers to bytes and back, in a stated byte order on every
// machine. Compilers turn each function into one load or store. REQUIRES, for every function:
// `bytes` points to sizeof(T) readable or writable bytes.
#pragma once

#include <concepts>
#include <cstddef>

namespace duetime::storage {

template <std::unsigned_integral T>
void StoreLittleEndian(T value, char* bytes) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    bytes[i] = static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  }
}

template <std::unsigned_integral T>
T LoadLittleEndian(const char* bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    value =
        static_cast<T>(value | static_cast<T>(T{static_cast<unsigned char>(bytes[i])} << (8 * i)));
  }
  return value;
}

// Big-endian bytes compare like the numbers, as keys require.
template <std::unsigned_integral T>
void StoreBigEndian(T value, char* bytes) {
  for (size_t i = 0; i < sizeof(T); ++i) {
    bytes[sizeof(T) - 1 - i] = static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  }
}

template <std::unsigned_integral T>
T LoadBigEndian(const char* bytes) {
  T value = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    const T byte = static_cast<unsigned char>(bytes[sizeof(T) - 1 - i]);
    value = static_cast<T>(value | static_cast<T>(byte << (8 * i)));
  }
  return value;
}

}  // namespace duetime::storage
