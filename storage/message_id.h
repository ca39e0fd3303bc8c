// SPDX-License-Identifier: Apache-2.0
//
// MessageId: the id of a message, which is also its address.
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
// epoch     How often the data directory had been opened. Each start increments and syncs it, so a
//           shard never uses the same (epoch, sequence) twice.
// sequence  Counts a shard's accepted messages within an epoch, from a random number up to
//           kFirstSequenceMax: two copies of a data directory count the same epochs. Epoch and
//           sequence stand before the slot so that ids of a shard sort by acceptance, also among
//           equal due times.
// slot      One of 16,384 slots. The slot decides which shard holds the message.
// due_ms    The due time in the message's first storage key, UTC milliseconds (until the year
//           2527). Cancel and Get therefore need no index.
//
// Immutable value type. The text form is 26 characters of lower-case Crockford base32. It sorts
// like the bytes and is opaque to clients.
struct MessageId {
  uint64_t high = 0;
  uint64_t low = 0;

  static constexpr int kVersion = 1;
  static constexpr uint32_t kSlotCount = 1u << 14;
  static constexpr uint64_t kEpochMax = (uint64_t{1} << 26) - 1;
  static constexpr uint64_t kSequenceMax = (uint64_t{1} << 40) - 1;
  // Leaves three quarters of the sequences, 8 * 10^11, to each epoch.
  static constexpr uint64_t kFirstSequenceMax = uint64_t{1} << 38;
  static constexpr uint64_t kDueMax = (uint64_t{1} << 44) - 1;
  static constexpr size_t kTextSize = 26;

  // REQUIRES: each part fits its bits.
  static MessageId Make(uint64_t epoch, uint64_t sequence, uint32_t slot, uint64_t due_ms);

  // Parses the text form. nullopt if `text` is not exactly the ToString of a valid id (other
  // length, other character, upper case, unknown version, bits beyond 128).
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

// The shard of a slot. Each shard has one run of slots, all runs about equally long. REQUIRES: slot
// < kSlotCount, shard_count in [1, kSlotCount].
constexpr uint16_t ShardOfSlot(uint32_t slot, uint16_t shard_count) {
  return static_cast<uint16_t>(uint64_t{slot} * shard_count / MessageId::kSlotCount);
}

// The position of a message in its shard: by due time, then by id (that is, by acceptance).
struct MessageKey {
  uint64_t due_ms = 0;
  MessageId id;

  // The least key of a message due at `due_ms`.
  static constexpr MessageKey FirstAt(uint64_t due_ms) { return MessageKey{due_ms, MessageId{}}; }

  friend constexpr auto operator<=>(const MessageKey&, const MessageKey&) = default;
};

}  // namespace duetime::storage
