// SPDX-License-Identifier: Apache-2.0
//
// MessageStore: what the records in the journal add up to, to be read.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "storage/journal.h"
#include "storage/trace.h"
#include "storage/types.h"

namespace duetime::storage {

// What the loader needs of a message: enough to queue it, not its payload.
struct MessageRef {
  MessageKey key;
  TopicId topic{};
  // Size of the whole record in bytes.
  uint32_t bytes = 0;
  // MessageFlags.
  uint8_t flags = 0;

  friend constexpr bool operator==(const MessageRef&, const MessageRef&) = default;
};

// A backlog record with its place.
struct BacklogRef {
  MessageKey key;
  BacklogEntry entry;

  friend constexpr bool operator==(const BacklogRef&, const BacklogRef&) = default;
};

// How far one subscription has come with a message.
using ProgressRef = std::pair<SubscriptionId, Progress>;

// A message without its payload.
struct MessageHeadRef {
  MessageKey key;
  // Size of the whole record in bytes.
  uint32_t bytes = 0;
  // The record up to its payload.
  std::string head;
};

// A name of the index with what it says.
struct IndexRef {
  std::string name;
  IndexEntry entry;
};

// How fine a counter counts.
enum class CountLevel : uint8_t { kTopic = 0, kHour = 1, kMinute = 2 };
inline constexpr CountLevel kCountLevels[] = {CountLevel::kTopic, CountLevel::kHour,
                                              CountLevel::kMinute};

// Where the bucket begins that counts what is due at `time_ms`.
constexpr uint64_t BucketStart(CountLevel level, uint64_t time_ms) {
  if (level == CountLevel::kTopic) return 0;
  return time_ms - time_ms % (level == CountLevel::kHour ? 3'600'000 : 60'000);
}

// What is pending in one bucket of time. Never both zero in the answer of a scan.
struct BucketCount {
  // Its first millisecond; 0 for kTopic.
  uint64_t start_ms = 0;
  uint64_t messages = 0;
  uint64_t bytes = 0;

  friend constexpr bool operator==(const BucketCount&, const BucketCount&) = default;
};

// An object with its name.
struct ObjectRef {
  std::string name;
  std::string value;
};

// How much one scan may return before it stops. It always returns at least one entry if there is
// one.
struct ScanLimit {
  size_t entries = 1000;
  size_t bytes = 4 << 20;
};

// One page of a scan. `next` is where to go on, or nothing if the range is exhausted.
template <typename T>
struct Page {
  std::vector<T> items;
  std::optional<MessageKey> next;
};

// The marks of one shard that survive a restart. Absent means 0: "from the first key", never "now".
struct ShardMarks {
  uint64_t claim_ms = 0;
  uint64_t safe_ms = 0;
};

// Reads what is stored. A read sees every append that was accepted before it began, and never part
// of a batch. An error is INTERNAL or DATA_LOSS and means that the answer is not known: the caller
// stops the shard.
//
// Every scan has both bounds; the lower one is a watermark, so that no scan walks over the
// tombstones of the past. Thread-safe, also beside Append.
class MessageStore : public Journal {
 public:
  // How often this store has been opened, this time included; durable before the first read.
  virtual uint64_t epoch() const = 0;

  // Fixed when the store was created.
  virtual uint16_t shard_count() const = 0;

  // Messages with from <= key < until, in key order.
  virtual absl::Status Scan(uint16_t shard, const MessageKey& from, const MessageKey& until,
                            const ScanLimit& limit, Page<MessageRef>* page) = 0;

  // The records of `keys`, in the same order; nothing for those that are absent. REQUIRES: keys
  // ascend.
  virtual absl::Status MultiGet(uint16_t shard, std::span<const MessageKey> keys,
                                std::vector<std::optional<std::string>>* values) = 0;

  // Backlog records of a subscription with key >= from, in key order.
  virtual absl::Status ScanBacklog(uint16_t shard, SubscriptionId subscription,
                                   const MessageKey& from, const ScanLimit& limit,
                                   Page<BacklogRef>* page) = 0;

  // One backlog record, if the message is listed at `key`.
  virtual absl::StatusOr<std::optional<BacklogEntry>> GetBacklog(uint16_t shard,
                                                                 SubscriptionId subscription,
                                                                 const MessageKey& key) = 0;

  // The subscriptions that have a backlog, ascending. Cost: one seek for each one found.
  virtual absl::StatusOr<std::vector<SubscriptionId>> BacklogSubscriptions(uint16_t shard) = 0;

  // How far the subscription's backlog has been claimed; nothing if it never was.
  virtual absl::StatusOr<std::optional<MessageKey>> BacklogClaim(uint16_t shard,
                                                                 SubscriptionId subscription) = 0;

  // How far the subscriptions have come with the message at `key`, ascending by subscription;
  // empty if there is nothing to say, which is the usual case and costs no read of a disk. Also for
  // a message that is not there.
  virtual absl::StatusOr<std::vector<ProgressRef>> GetProgress(uint16_t shard,
                                                               const MessageKey& key) = 0;

  // Messages of `topic` with from <= key < until, in key order. Walks over the messages of other
  // topics in between: `scan_max` bounds how many it looks at before it stops with `next` set, and
  // then the page may be empty.
  virtual absl::Status ScanHeads(uint16_t shard, TopicId topic, const MessageKey& from,
                                 const MessageKey& until, const ScanLimit& limit, size_t scan_max,
                                 Page<MessageHeadRef>* page) = 0;

  // What a name says, also when its time is over: the caller compares.
  virtual absl::StatusOr<std::optional<IndexEntry>> GetIndex(uint16_t shard, TopicId topic,
                                                             IndexKind kind,
                                                             absl::string_view name) = 0;

  // The first `limit` names that begin with `prefix` and are greater than `after`, in byte order.
  virtual absl::Status ScanIndex(uint16_t shard, TopicId topic, IndexKind kind,
                                 absl::string_view prefix, absl::string_view after, size_t limit,
                                 std::vector<IndexRef>* entries) = 0;

  // What is remembered of a message that is not at its id's own place.
  virtual absl::StatusOr<std::optional<Trace>> GetTrace(uint16_t shard, const MessageId& id) = 0;

  // The topic's counters that are not zero with from_ms <= start_ms < until_ms, in order, at most
  // `limit`.
  virtual absl::Status ScanCounts(uint16_t shard, TopicId topic, CountLevel level, uint64_t from_ms,
                                  uint64_t until_ms, size_t limit,
                                  std::vector<BucketCount>* counts) = 0;

  virtual absl::StatusOr<std::optional<std::string>> GetObject(ObjectKind kind, uint16_t shard,
                                                               absl::string_view name) = 0;

  // The first `limit` objects whose names are greater than `after`, in byte order.
  virtual absl::Status ScanObjects(ObjectKind kind, uint16_t shard, absl::string_view after,
                                   size_t limit, std::vector<ObjectRef>* objects) = 0;

  // Index entries and fates whose expire_ms is not 0 and at or below this may be dropped from now
  // on, whenever it is convenient. Only ever moves forward. Readers that compare expire_ms with the
  // time notice no difference.
  virtual void DropExpired(uint64_t until_ms) = 0;

  // The shard's marks as of the last accepted append.
  virtual absl::StatusOr<ShardMarks> Marks(uint16_t shard) = 0;

  // Every named topic.
  virtual absl::StatusOr<std::vector<std::pair<TopicId, std::string>>> Topics() = 0;

  // Point read of one message; nothing if it is absent.
  absl::StatusOr<std::optional<std::string>> Get(uint16_t shard, const MessageKey& key) {
    std::vector<std::optional<std::string>> values;
    if (absl::Status status = MultiGet(shard, std::span(&key, 1), &values); !status.ok()) {
      return status;
    }
    return std::move(values[0]);
  }
};

}  // namespace duetime::storage
