// SPDX-License-Identifier: Apache-2.0
//
// The keys of the RocksDB store. Big-endian throughout, so that the order of the bytes is the order
// of the numbers. Documented in FORMAT.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"

#include "storage/message_id.h"
#include "storage/message_store.h"
#include "storage/types.h"

namespace duetime::storage {

// In the order of the handles that the store opens. Not written to disk: column families are named
// there.
enum class ColumnFamily : uint8_t {
  kMeta = 0,
  kMessages = 1,
  kBacklog = 2,
  kIndex = 3,
  kTraces = 4,
  kCounts = 5,
  kObjects = 6,
  kProgress = 7,
};
inline constexpr size_t kColumnFamilyCount = 8;

// A key together with its column family, in one fixed block of 32 bytes: family, key, zeros,
// length. Comparing two blocks compares (family, key), which is the order in which a group is
// written.
//
// Of a key that is longer (it ends with a long name) the block has the beginning only: enough to
// sort by, since two that compare equal may be written in either order unless they are the same
// key, and then in the order given, which is what a stable sort keeps.
//
// Value type; no allocation.
class StoreKey {
 public:
  static constexpr size_t kBytesMax = 30;

  // What does not fit is left out.
  StoreKey(ColumnFamily family, absl::string_view bytes);

  ColumnFamily family() const { return static_cast<ColumnFamily>(block_[0]); }
  // False if this is only the beginning of a longer key.
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

// The greatest backlog key of a subscription, which no message can have (its id is of no known
// version).
StoreKey BacklogEnd(uint16_t shard, SubscriptionId subscription);

// progress: shard u16, due_ms u64, id 16 bytes, subscription u32.
StoreKey EncodeProgressKey(uint16_t shard, const MessageKey& key, SubscriptionId subscription);

// What all progress keys of a message begin with, ...
inline constexpr size_t kProgressPrefixBytes = 2 + 8 + 16;
StoreKey ProgressBegin(uint16_t shard, const MessageKey& key);
// ... and the least key after all of them.
StoreKey ProgressEnd(uint16_t shard, const MessageKey& key);

// traces: shard u16, id 16 bytes.
StoreKey EncodeTraceKey(uint16_t shard, const MessageId& id);

// counts: shard u16, topic u32, level u8, first millisecond of the bucket u64.
StoreKey EncodeCountKey(uint16_t shard, TopicId topic, CountLevel level, uint64_t start_ms);

// A key that ends with a name, put together in a buffer of its own; no allocation for names of a
// usual length. Short ones are whole as a StoreKey.
class NameKey {
 public:
  // index: shard u16, topic u32, kind u8, name.
  static NameKey OfIndex(uint16_t shard, TopicId topic, uint8_t kind, absl::string_view name);
  // objects: kind u8, shard u16, name.
  static NameKey OfObject(uint8_t kind, uint16_t shard, absl::string_view name);

  ColumnFamily family() const { return family_; }
  absl::string_view bytes() const { return {bytes_.data(), bytes_.size()}; }
  StoreKey ToStoreKey() const { return StoreKey(family_, bytes()); }

  // The least key that is greater ...
  NameKey After() const;
  // ... and the least one that does not begin with this one.
  NameKey EndOfPrefix() const;

 private:
  static constexpr size_t kInlineBytes = 96;

  NameKey(ColumnFamily family, absl::string_view head, absl::string_view name);

  ColumnFamily family_;
  absl::InlinedVector<char, kInlineBytes> bytes_;
};

// The least key of the same family that is greater. REQUIRES: the key is shorter than
// StoreKey::kBytesMax.
StoreKey KeyAfter(const StoreKey& key);

// meta: one name each for the store ...
StoreKey FormatVersionKey();
StoreKey StoreIdKey();
StoreKey EpochKey();
StoreKey ShardCountKey();
// How far an upgrade has come; absent when none is going on.
StoreKey UpgradeKey();
// ... and one for each shard, each shard's subscription, each topic.
StoreKey ClaimKey(uint16_t shard);
StoreKey SafeKey(uint16_t shard);
StoreKey BacklogClaimKey(uint16_t shard, SubscriptionId subscription);
StoreKey TopicKey(TopicId topic);
// No topic's key, and after all of them.
StoreKey TopicKeysEnd();

// The parts of a key read back; nothing if it has another length. The shard is mostly the caller's,
// who bounded the read by it.
std::optional<uint16_t> DecodeShard(absl::string_view bytes);
std::optional<MessageKey> DecodeMessageKey(absl::string_view bytes);
struct BacklogPlace {
  SubscriptionId subscription{};
  MessageKey key;
};
std::optional<BacklogPlace> DecodeBacklogKey(absl::string_view bytes);
std::optional<SubscriptionId> DecodeProgressKey(absl::string_view bytes);
std::optional<TopicId> DecodeTopicKey(absl::string_view bytes);
// The first millisecond of the bucket.
std::optional<uint64_t> DecodeCountKey(absl::string_view bytes);
// The names.
std::optional<absl::string_view> DecodeIndexKey(absl::string_view bytes);
std::optional<absl::string_view> DecodeObjectKey(absl::string_view bytes);

}  // namespace duetime::storage
