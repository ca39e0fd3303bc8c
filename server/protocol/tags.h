// SPDX-License-Identifier: Apache-2.0
//
// Tags that a shard copies from a command to its replies, without interpreting them.
#pragma once

#include <cstdint>

namespace duetime::protocol {

// A call that waits for replies of shards.
enum class CallTag : uint64_t {};
// A subscriber's stream, unique within the process.
enum class StreamId : uint64_t {};
// One lease: the shard in 6 bits, then 58 bits of a keyed hash, so that a client cannot guess the
// token of another client's lease. The hash differs between leases and between restarts, but for a
// probability of 2^-58.
enum class LeaseToken : uint64_t {};
// The token of no lease.
inline constexpr LeaseToken kNoLease{};

constexpr uint16_t kShardCountMax = 64;
constexpr uint16_t ShardOfLease(LeaseToken token) {
  return static_cast<uint16_t>(static_cast<uint64_t>(token) >> 58);
}

}  // namespace duetime::protocol
