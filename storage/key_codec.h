// SPDX-License-Identifier: Apache-2.0
//
// The keys of the RocksDB store. Numbers are big-endian, so that keys sort like their numbers.
// FORMAT.md documents the keys.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"

#include "storage/layout.h"
#include "storage/message_id.h"
#include "storage/types.h"

namespace duetime::storage {

// A key and its column family in one block of 32 bytes: family, key, zeros, length. Blocks compare
// like (family, key), the order in which a group is written.
//
// A longer key, which ends with a long name, is cut off. The beginning is enough to sort by:
// different keys may be written in any order, and a stable sort keeps records of the same key in
// the given order.
//
// Value type; does not allocate.
class StoreKey {
 public:
  static constexpr size_t kBytesMax = 30;

  // Cuts off bytes that do not fit.
  StoreKey(ColumnFamily family, absl::string_view bytes);

  ColumnFamily family() const { return static_cast<ColumnFamily>(block_[0]); }
  // False if the key was cut off.
  bool whole() const { return static_cast<size_t>(block_[kLengthAt]) <= kBytesMax; }
  // REQUIRES: whole().
  absl::string_view bytes() const {
    return absl::string_view(&block_[1], static_cast<size_t>(block_[kLengthAt]));
  }

  friend bool operator<(const StoreKey& a, const StoreKey& b) {
    return std::memcmp(a.block_.data(), b.block_.data(), sizeof(a.block_)) < 0;
  }

 private:
  static constexpr size_t kLengthAt = 31;

  std::array<char, 32> block_{};
};

// messages: shard u16, due_ms u64, id 16 bytes.
StoreKey EncodeMessageKey(uint16_t shard, const MessageKey& key);

// backlog: shard u16, subscription u32, due_ms u64, id 16 bytes.
StoreKey EncodeBacklogKey(uint16_t shard, SubscriptionId subscription, const MessageKey& key);

// The upper bound of a subscription's backlog keys. No message has this key, because its id has no
// valid version.
StoreKey BacklogEnd(uint16_t shard, SubscriptionId subscription);

// progress: shard u16, due_ms u64, id 16 bytes, subscription u32.
StoreKey EncodeProgressKey(uint16_t shard, const MessageKey& key, SubscriptionId subscription);

// The size of the common prefix of a message's progress keys.
inline constexpr size_t kProgressPrefixBytes = 2 + 8 + 16;
StoreKey ProgressBegin(uint16_t shard, const MessageKey& key);
// The least key after all progress keys of a message.
StoreKey ProgressEnd(uint16_t shard, const MessageKey& key);

// traces (locators): shard u16, id 16 bytes.
StoreKey EncodeLocatorKey(uint16_t shard, const MessageId& id);
std::optional<MessageId> DecodeLocatorKey(absl::string_view bytes);

// counts: shard u16, topic u32, row u8, the first millisecond of the day u64.
//
// kDone counts what a subscription is done with, and has its number in place of that of the topic.
enum class CountRow : uint8_t { kTopic = 0, kDay = 3, kDone = 4 };
StoreKey EncodeCountKey(uint16_t shard, TopicId topic, CountRow row, uint64_t start_ms);
// The counter of a whole topic, and that of a day.
inline StoreKey CountKey(uint16_t shard, TopicId topic) {
  return EncodeCountKey(shard, topic, CountRow::kTopic, 0);
}
inline StoreKey DayKey(uint16_t shard, TopicId topic, uint64_t day_ms) {
  return EncodeCountKey(shard, topic, CountRow::kDay, day_ms);
}
inline StoreKey DoneKey(uint16_t shard, SubscriptionId subscription, uint64_t day_ms) {
  return EncodeCountKey(shard, TopicId{static_cast<uint32_t>(subscription)}, CountRow::kDone,
                        day_ms);
}

// A key that ends with a name. Does not allocate for names of usual length. A short key fits a
// StoreKey.
class NameKey {
 public:
  // index: shard u16, topic u32, kind u8, name.
  static NameKey OfIndex(uint16_t shard, TopicId topic, uint8_t kind, absl::string_view name);
  // objects: kind u8, shard u16, name.
  static NameKey OfObject(uint8_t kind, uint16_t shard, absl::string_view name);

  ColumnFamily family() const { return family_; }
  absl::string_view bytes() const { return {bytes_.data(), bytes_.size()}; }
  StoreKey ToStoreKey() const { return StoreKey(family_, bytes()); }

  // The least key that is greater than this one.
  NameKey After() const;
  // The least key after all keys that begin with this one.
  NameKey EndOfPrefix() const;

 private:
  static constexpr size_t kInlineBytes = 96;

  NameKey(ColumnFamily family, absl::string_view head, absl::string_view name);

  ColumnFamily family_;
  absl::InlinedVector<char, kInlineBytes> bytes_;
};

// Keys of the family meta that exist once per store.
StoreKey FormatVersionKey();
StoreKey StoreIdKey();
StoreKey EpochKey();
StoreKey ShardCountKey();
StoreKey WitnessFileKey();
// The place where an upgrade continues. Absent if no upgrade is in progress.
StoreKey UpgradeKey();
// How far a cell's member has applied the log. Absent in the store of a single server.
StoreKey LogPlaceKey();
// Keys of the family meta for each shard, for each subscription of a shard, and for each topic.
StoreKey ClaimKey(uint16_t shard);
StoreKey LowWatermarkKey(uint16_t shard);
StoreKey BacklogClaimKey(uint16_t shard, SubscriptionId subscription);
StoreKey TopicKey(TopicId topic);
// The upper bound of the topic keys.
StoreKey TopicKeysEnd();

// Each function decodes a part of a key; nullopt if the key has the wrong length. The caller
// usually knows the shard, because the bounds of its read contain it.
std::optional<uint16_t> DecodeShard(absl::string_view bytes);
std::optional<MessageKey> DecodeMessageKey(absl::string_view bytes);
struct BacklogPlace {
  SubscriptionId subscription{};
  MessageKey key;
};
std::optional<BacklogPlace> DecodeBacklogKey(absl::string_view bytes);
// The first place whose key is not less than `bytes`, which need not be a key: a block of a table
// may end anywhere. REQUIRES: `bytes` lies between two keys of one shard, or of one subscription.
MessageKey PlaceInMessages(absl::string_view bytes);
MessageKey PlaceInBacklog(absl::string_view bytes);
std::optional<SubscriptionId> DecodeProgressKey(absl::string_view bytes);
std::optional<TopicId> DecodeTopicKey(absl::string_view bytes);
struct CountPlace {
  uint16_t shard = 0;
  TopicId topic{};
  CountRow row{};
  uint64_t start_ms = 0;

  friend constexpr bool operator==(const CountPlace&, const CountPlace&) = default;
};
std::optional<CountPlace> DecodeCountKey(absl::string_view bytes);
// Return the name.
std::optional<absl::string_view> DecodeIndexKey(absl::string_view bytes);
std::optional<absl::string_view> DecodeObjectKey(absl::string_view bytes);

}  // namespace duetime::storage
