// SPDX-License-Identifier: Apache-2.0
//
// MessageStore: the state that the journal's records produce, for reading.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "storage/damage.h"
#include "storage/journal.h"
#include "storage/locator.h"
#include "storage/time_units.h"
#include "storage/types.h"

namespace duetime::storage {

// A stored message without its content, as the loader needs it.
struct MessageRef {
  MessageKey key;
  TopicId topic{};
  // Size of the whole record in bytes.
  uint32_t bytes = 0;
  // MessageFlags.
  uint8_t flags = 0;

  friend constexpr bool operator==(const MessageRef&, const MessageRef&) = default;
};

// A backlog entry with its key.
struct BacklogRef {
  MessageKey key;
  BacklogEntry entry;

  friend constexpr bool operator==(const BacklogRef&, const BacklogRef&) = default;
};

// One subscription's progress with a message.
using ProgressRef = std::pair<SubscriptionId, Progress>;

// A message without its payload.
struct MessageHeadRef {
  MessageKey key;
  // Size of the whole record in bytes.
  uint32_t bytes = 0;
  // The record up to its payload.
  std::string head;
};

// An index entry with its name.
struct IndexRef {
  std::string name;
  IndexEntry entry;
};

// The span of time that a counter covers.
enum class CountLevel : uint8_t { kTopic = 0, kHour = 1, kMinute = 2 };
inline constexpr CountLevel kCountLevels[] = {CountLevel::kTopic, CountLevel::kHour,
                                              CountLevel::kMinute};

// The start of the bucket that counts messages due at `time_ms`.
constexpr uint64_t BucketStart(CountLevel level, uint64_t time_ms) {
  if (level == CountLevel::kTopic) return 0;
  return time_ms - time_ms % (level == CountLevel::kHour ? kHourMs : kMinuteMs);
}

// The pending messages of one bucket. A scan returns no empty buckets.
struct BucketCount {
  // The first millisecond of the bucket; 0 for kTopic.
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

// The most that one scan returns. A scan returns at least one entry if there is one.
struct ScanLimit {
  size_t entries = 1000;
  size_t bytes = 4 << 20;
};

// The keys with from <= key < until.
struct KeyRange {
  MessageKey from;
  MessageKey until;
};

// The times with from_ms <= time < until_ms.
struct MsRange {
  uint64_t from_ms = 0;
  uint64_t until_ms = 0;
};

// The names that begin with `prefix` and are greater than `after`.
struct NameRange {
  absl::string_view prefix;
  absl::string_view after;
};

// One page of a scan. `next` is where the next page begins; absent after the last page.
template <typename T>
struct Page {
  std::vector<T> items;
  std::optional<MessageKey> next;
  // The scan went around damage within the page: it may have left items out.
  bool damaged = false;
};

// The subscriptions of a shard that have a backlog, ascending.
struct BacklogOwners {
  std::vector<SubscriptionId> subscriptions;
  // Damage may hide the backlog of any other subscription.
  bool damaged = false;
};

// The watermarks of one shard that survive a restart. A mark that was never written is 0, which
// means "from the first key", never "now".
struct ShardMarks {
  uint64_t claim_ms = 0;
  uint64_t low_watermark_ms = 0;
  // Set if the last run ended with a clean stop.
  std::optional<ClaimReturn> claim_return = {};
};

// Reads stored state. A read sees every append that was accepted before the read began, and never a
// part of a batch. A read that fails returns INTERNAL or DATA_LOSS; the caller then stops the
// shard.
//
// Damage is the exception. If the bytes of a record on disk are damaged, a read of that record
// returns a DamageError, which concerns this record alone: the caller must not take it for absent.
// A scan goes around what cannot be read, and Damage() lists it. Where a scan goes around, it may
// show appends that were accepted after it began. It takes time to find out where damage ends. So a
// scan with pages then ends its page, which may be empty, with `next`.
//
// Every scan has two bounds. The lower bound is a watermark, so that no scan walks over the
// tombstones of erased messages.
//
// Thread safety: thread-safe, also while the journal appends.
class MessageStore {
 public:
  virtual ~MessageStore() = default;

  // How often this store has been opened, including this time. The epoch is durable before the
  // first read.
  virtual uint64_t epoch() const = 0;

  // The sequence at which the ids of this opening begin, in [1, MessageId::kFirstSequenceMax]. A
  // store on disk draws it at random: a copy of a data directory, or one restored from a backup,
  // has the epochs of the original, and must not give its ids.
  virtual uint64_t first_sequence() const { return 1; }

  // Fixed when the store was created.
  virtual uint16_t shard_count() const = 0;

  // Reads messages with from <= key < until, in key order. Goes around damage, and says so
  // in the page.
  virtual absl::Status Scan(uint16_t shard, const MessageKey& from, const MessageKey& until,
                            const ScanLimit& limit, Page<MessageRef>* page) = 0;

  // Reads the records of `keys`, in the same order; nullopt for an absent message, and an empty
  // string, which no record is, for a message that cannot be read because of damage. REQUIRES:
  // `keys` ascend.
  virtual absl::Status MultiGet(uint16_t shard, std::span<const MessageKey> keys,
                                std::vector<std::optional<std::string>>* values) = 0;

  // Reads a subscription's backlog entries with key >= from, in key order. Goes around damage, and
  // says so in the page.
  virtual absl::Status ScanBacklog(uint16_t shard, SubscriptionId subscription,
                                   const MessageKey& from, const ScanLimit& limit,
                                   Page<BacklogRef>* page) = 0;

  // Reads one backlog entry; nullopt if there is none at `key`.
  virtual absl::StatusOr<std::optional<BacklogEntry>> GetBacklog(uint16_t shard,
                                                                 SubscriptionId subscription,
                                                                 const MessageKey& key) = 0;

  // Returns the subscriptions with a backlog. Goes around damage, and says so. Cost: one seek per
  // subscription found.
  virtual absl::StatusOr<BacklogOwners> BacklogSubscriptions(uint16_t shard) = 0;

  // Returns the subscription's backlog claim; nullopt if it was never claimed.
  virtual absl::StatusOr<std::optional<MessageKey>> BacklogClaim(uint16_t shard,
                                                                 SubscriptionId subscription) = 0;

  // Returns the progress of each subscription with the message at `key`, ascending by subscription,
  // whether or not the message exists. Usually there is none, and then the call does not read the
  // disk.
  virtual absl::StatusOr<std::vector<ProgressRef>> GetProgress(uint16_t shard,
                                                               const MessageKey& key) = 0;
  // The progress of one subscription, or nullopt. Cost: less than the other's, above all if the
  // record was written over several times.
  virtual absl::StatusOr<std::optional<Progress>> GetProgressOf(uint16_t shard,
                                                                const MessageKey& key,
                                                                SubscriptionId subscription) = 0;

  // Reads the heads of messages of `topic` within `keys`, in key order. The scan also
  // passes the messages of other topics. After `scan_max` messages it stops and sets `next`; the
  // page may then be empty. Goes around damage, and says so in the page.
  virtual absl::Status ScanHeads(uint16_t shard, TopicId topic, const KeyRange& keys,
                                 const ScanLimit& limit, size_t scan_max,
                                 Page<MessageHeadRef>* page) = 0;

  // Reads the index entry of a name, whether or not it has expired: the caller compares expire_ms.
  virtual absl::StatusOr<std::optional<IndexEntry>> GetIndex(uint16_t shard, TopicId topic,
                                                             IndexKind kind,
                                                             absl::string_view name) = 0;

  // Reads the first `limit` entries within `names`, in byte order. Goes around damage.
  virtual absl::Status ScanIndex(uint16_t shard, TopicId topic, IndexKind kind,
                                 const NameRange& names, size_t limit,
                                 std::vector<IndexRef>* entries) = 0;

  // Reads the locator of a message that was moved or has ended. An undecodable row is an
  // error for each of the up to 64 messages whose tombstone it can hold.
  virtual absl::StatusOr<std::optional<Locator>> GetLocator(uint16_t shard,
                                                            const MessageId& id) = 0;

  // Reads at most `limit` of the topic's counters that start within `times`, in order.
  // Omits counters of zero. If a counter is damaged, returns a DamageError, or the sum of the
  // topic's days.
  virtual absl::Status ReadCounts(uint16_t shard, TopicId topic, CountLevel level,
                                  const MsRange& times, size_t limit,
                                  std::vector<BucketCount>* counts) {
    return ScanCounts(shard, topic, level, times, limit, counts);
  }

  // As ReadCounts, but instead of a DamageError, counts the messages themselves, as far as they can
  // be read. Cost: then one read for each message of the shard in that time. So an engine thread
  // may call it only for a few minutes.
  virtual absl::Status ScanCounts(uint16_t shard, TopicId topic, CountLevel level,
                                  const MsRange& times, size_t limit,
                                  std::vector<BucketCount>* counts) = 0;

  // Reads, as ReadCounts does by minute, the messages of its topic that a subscription is done
  // with: it has settled them, or they are older than it. Damage hides some, without an error.
  virtual absl::Status ReadDone(uint16_t shard, SubscriptionId subscription, const MsRange& times,
                                size_t limit, std::vector<BucketCount>* counts) = 0;

  virtual absl::StatusOr<std::optional<std::string>> GetObject(ObjectKind kind, uint16_t shard,
                                                               absl::string_view name) = 0;

  // Reads the first `limit` objects whose names are greater than `after`, in byte order.
  virtual absl::Status ScanObjects(ObjectKind kind, uint16_t shard, absl::string_view after,
                                   size_t limit, std::vector<ObjectRef>* objects) = 0;

  // Allows the store to drop index entries and tombstones with 0 < expire_ms <= until_ms at any
  // time until the next call, which names an earlier time if the clock was set back. Readers
  // compare expire_ms with the time and therefore see no difference.
  virtual void DropExpired(uint64_t until_ms) = 0;

  // Returns the shard's marks as of the last accepted append.
  virtual absl::StatusOr<ShardMarks> Marks(uint16_t shard) = 0;

  // Returns every topic that has a name.
  virtual absl::StatusOr<std::vector<std::pair<TopicId, std::string>>> Topics() = 0;

  // What was found damaged since the store was opened.
  virtual DamageReport Damage() const { return {}; }

  // How much damage of backlogs was found since the store was opened. It never decreases. A later
  // and greater number means that more entries are lost. Cost: much less than that of Damage().
  virtual uint64_t BacklogDamage() const { return 0; }

  // True if scans leave out a whole table of backlogs, because there are too many damaged blocks.
  // Then GetBacklog reads entries that ScanBacklog does not show. Cost: as BacklogDamage.
  virtual bool BacklogHidden() const { return false; }

  // Reads one message; nullopt if it is absent, a DamageError if it cannot be read because of
  // damage.
  virtual absl::StatusOr<std::optional<std::string>> Get(uint16_t shard, const MessageKey& key) {
    std::vector<std::optional<std::string>> values;
    if (absl::Status status = MultiGet(shard, std::span(&key, 1), &values); !status.ok()) {
      return status;
    }
    if (values[0].has_value() && values[0]->empty()) return DamageError({});
    return std::move(values[0]);
  }
};

// A store with a journal of its own. An accepted append is applied.
class JournaledStore : public MessageStore, public Journal {};

}  // namespace duetime::storage
