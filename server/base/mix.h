// SPDX-License-Identifier: Apache-2.0
//
// Mix: a hash of 64-bit numbers.
#pragma once

#include <cstdint>

namespace duetime::base {

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits that scatters
// neighbours; Mix(0) is 0. Never change it: stored data depends on it. Hashes of libraries do not
// promise to stay the same.
constexpr uint64_t Mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

}  // namespace duetime::base
