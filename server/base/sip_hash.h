// SPDX-License-Identifier: Apache-2.0
//
// SipHash: a keyed hash that cannot be guessed without its key.
#pragma once

#include <bit>
#include <cstdint>
#include <initializer_list>

namespace duetime::base {

// A secret.
struct SipKey {
  uint64_t low = 0;
  uint64_t high = 0;
};

// SipHash-2-4 (Aumasson, Bernstein 2012) of two words. A client that sees many hashes learns
// nothing about the others. Cost: about 20 ns.
constexpr uint64_t SipHash(const SipKey& key, uint64_t first, uint64_t second) {
  uint64_t v0 = key.low ^ 0x736f6d6570736575u;
  uint64_t v1 = key.high ^ 0x646f72616e646f6du;
  uint64_t v2 = key.low ^ 0x6c7967656e657261u;
  uint64_t v3 = key.high ^ 0x7465646279746573u;
  const auto rounds = [&](int count) {
    for (int i = 0; i < count; ++i) {
      v0 += v1;
      v1 = std::rotl(v1, 13) ^ v0;
      v0 = std::rotl(v0, 32);
      v2 += v3;
      v3 = std::rotl(v3, 16) ^ v2;
      v0 += v3;
      v3 = std::rotl(v3, 21) ^ v0;
      v2 += v1;
      v1 = std::rotl(v1, 17) ^ v2;
      v2 = std::rotl(v2, 32);
    }
  };
  // The last block holds the length of the input, 16 bytes.
  for (const uint64_t block : {first, second, uint64_t{16} << 56}) {
    v3 ^= block;
    rounds(2);
    v0 ^= block;
  }
  v2 ^= 0xff;
  rounds(4);
  return v0 ^ v1 ^ v2 ^ v3;
}

}  // namespace duetime::base
