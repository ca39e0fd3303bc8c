// SPDX-License-Identifier: Apache-2.0
//
// MessageId: the name of a message, which is also its address.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace duetime::storage {

// 128 bits, from the highest:
//
//   version 4 | epoch 26 | sequence 40 | slot 14 | due_ms 44
//
// epoch     how often the data directory had been opened; bumped and synced at each start, so (epoch, sequence) is never
//           used twice by a slot's shard.
// sequence  counts a shard's accepted messages within an epoch: ids of a shard order by acceptance, which is what makes
//           the order of equal due times the order of acceptance (epoch and sequence stand before slot for that reason).
// slot      which of the 16,384 slots, hence which shard, holds the message.
// due_ms    the due time in its storage key, UTC milliseconds (until the year 2527): cancel and get need no index.
//
// Immutable value type. The text form is 26 characters of lower-case Crockford base32, sorts as the bytes do, and is opaque
// to clients.
struct MessageId {
  uint64_t high = 0;
  uint64_t low = 0;

  static constexpr int kVersion = 1;
  static constexpr uint32_t kSlotCount = 1u << 14;
  static constexpr uint64_t kEpochMax = (uint64_t{1} << 26) - 1;
  static constexpr uint64_t kSequenceMax = (uint64_t{1} << 40) - 1;
  static constexpr uint64_t kDueMax = (uint64_t{1} << 44) - 1;
  static constexpr size_t kTextSize = 26;

  // REQUIRES: each part fits its bits.
  static MessageId Make(uint64_t epoch, uint64_t sequence, uint32_t slot, uint64_t due_ms);

  // Parses the text form. Nothing if it is not exactly what ToString of a valid id gives (other length, other character,
  // upper case, unknown version, bits beyond 128).
  static std::optional<MessageId> Parse(absl::string_view text);

  uint64_t version() const { return high >> 60; }
  uint64_t epoch() const { return (high >> 34) & kEpochMax; }
  uint64_t sequence() const { return ((high & ((uint64_t{1} << 34) - 1)) << 6) | (low >> 58); }
  uint32_t slot() const { return static_cast<uint32_t>(low >> 44) & (kSlotCount - 1); }
  uint64_t due_ms() const { return low & kDueMax; }

  std::string ToString() const;

  friend constexpr auto operator<=>(const MessageId&, const MessageId&) = default;

  template <typename H>
  friend H AbslHashValue(H hash, const MessageId& id) {
    return H::combine(std::move(hash), id.high, id.low);
  }
};

// The shard that holds a slot: slots are dealt out in equal runs. REQUIRES: slot < kSlotCount, shard_count in
// [1, kSlotCount].
constexpr uint16_t ShardOfSlot(uint32_t slot, uint16_t shard_count) {
  return static_cast<uint16_t>(uint64_t{slot} * shard_count / MessageId::kSlotCount);
}

// Where a message stands in its shard: by due time, then by id (that is, by acceptance).
struct MessageKey {
  uint64_t due_ms = 0;
  MessageId id;

  // The first key a message due at `due_ms` can have.
  static constexpr MessageKey FirstAt(uint64_t due_ms) { return MessageKey{due_ms, MessageId{}}; }

  friend constexpr auto operator<=>(const MessageKey&, const MessageKey&) = default;
};

}  // namespace duetime::storage
