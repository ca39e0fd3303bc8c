// SPDX-License-Identifier: Apache-2.0
//
// Mix: numbers that look random, from numbers that do not.
#pragma once

#include <cstdint>

namespace duetime::base {

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014): a bijection of 64 bits that puts
// neighbours far apart; zero stays zero. Fixed for good: what is stored was computed with it, and
// must come out the same under every later version of the program, which hashes of libraries do
// not promise.
constexpr uint64_t Mix(uint64_t value) {
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
  value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
  return value ^ (value >> 31);
}

}  // namespace duetime::base
