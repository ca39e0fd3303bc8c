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

#include "absl/strings/string_view.h"

#include "storage/message_id.h"
#include "storage/types.h"

namespace duetime::storage {

// In the order of the handles that the store opens. Not written to disk: column families are named
// there.
enum class ColumnFamily : uint8_t { kMeta = 0, kMessages = 1, kBacklog = 2 };
inline constexpr size_t kColumnFamilyCount = 3;

// A key together with its column family, in one fixed block of 32 bytes: family, key, zeros,
// length. Comparing two blocks compares (family, key), which is the order in which a group is
// written.
//
// Value type; no allocation.
class StoreKey {
 public:
  static constexpr size_t kBytesMax = 30;

  // REQUIRES: bytes.size() <= kBytesMax.
  StoreKey(ColumnFamily family, absl::string_view bytes);

  ColumnFamily family() const { return static_cast<ColumnFamily>(block_[0]); }
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

// backlog: shard u16, topic u32, due_ms u64, id 16 bytes.
StoreKey EncodeBacklogKey(uint16_t shard, TopicId topic, const MessageKey& key);

// The greatest backlog key of a topic, which no message can have (its id is of no known version).
StoreKey BacklogEnd(uint16_t shard, TopicId topic);

// The least key of the same family that is greater. REQUIRES: the key is shorter than
// StoreKey::kBytesMax.
StoreKey KeyAfter(const StoreKey& key);

// meta: one name each for the store ...
StoreKey FormatVersionKey();
StoreKey StoreIdKey();
StoreKey EpochKey();
StoreKey ShardCountKey();
// ... and one for each shard, each shard's topic, each topic.
StoreKey ClaimKey(uint16_t shard);
StoreKey SafeKey(uint16_t shard);
StoreKey BacklogClaimKey(uint16_t shard, TopicId topic);
StoreKey TopicKey(TopicId topic);
// No topic's key, and after all of them.
StoreKey TopicKeysEnd();

// The parts of a key read back; nothing if it has another length. The shard is the caller's, who
// bounded the read by it.
std::optional<MessageKey> DecodeMessageKey(absl::string_view bytes);
struct BacklogPlace {
  TopicId topic{};
  MessageKey key;
};
std::optional<BacklogPlace> DecodeBacklogKey(absl::string_view bytes);
std::optional<TopicId> DecodeTopicKey(absl::string_view bytes);

}  // namespace duetime::storage
