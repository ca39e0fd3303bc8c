// SPDX-License-Identifier: Apache-2.0
//
// Makes lease tokens. tags.h documents the parts of a token.
#pragma once

#include <cstdint>

#include "server/protocol/tags.h"

namespace duetime::protocol {

inline constexpr int kLeaseCounterBits = 42;
inline constexpr uint64_t kLeaseCounterMask = (uint64_t{1} << kLeaseCounterBits) - 1;
inline constexpr uint64_t kLeaseEpochMask = 0xffff;

constexpr LeaseToken MakeToken(uint16_t shard, uint64_t epoch, uint64_t lease) {
  return static_cast<LeaseToken>((uint64_t{shard} << 58) |
                                 ((epoch & kLeaseEpochMask) << kLeaseCounterBits) |
                                 (lease & kLeaseCounterMask));
}

}  // namespace duetime::protocol
