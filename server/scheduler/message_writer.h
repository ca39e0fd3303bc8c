// SPDX-License-Identifier: Apache-2.0
//
// MessageWriter: writes the records of a shard's decisions about messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/container/node_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/protocol/topic_quota.h"
#include "server/scheduler/minute_counts.h"
#include "server/scheduler/pending_recount.h"
#include "server/scheduler/pending_writes.h"
#include "server/scheduler/recent_messages.h"
#include "storage/locator.h"
#include "storage/message_store.h"
#include "storage/types.h"

namespace duetime::protocol {
class TopicUse;
}  // namespace duetime::protocol

namespace duetime::scheduler {

// Adds records to the open batch, and counts the pending messages of each topic as they will be
// once the batch is in the journal. The store's own counters follow when it applies the batch.
//
// Thread safety: confined to the shard's engine thread.
class MessageWriter {
 public:
  // REQUIRES: `store` and `writes` outlive the writer.
  MessageWriter(uint16_t shard, storage::MessageStore* store, PendingWrites* writes,
                size_t recent_max = 0)
      : shard_(shard),
        store_(store),
        writes_(writes),
        recent_(recent_max),
        recount_(shard, store, writes),
        minutes_(shard, store, writes) {}

  // Writes a message that is not in the store yet, or not at this key. `replaces`: the position in
  // the open batch of an earlier Put of the same message, which is then as if it had never been.
  void Put(const storage::MessageKey& key, storage::TopicId topic, std::string record,
           std::optional<size_t> replaces = std::nullopt);

  // Removes a message. REQUIRES: the message is in the store, or its Put comes before; `bytes` is
  // the size of its record.
  void Erase(const storage::MessageKey& key, storage::TopicId topic, uint32_t bytes,
             storage::Durability durability);

  void PutLocator(const storage::MessageId& id, const storage::Locator& locator,
                  storage::Durability durability);

  // Writes a tombstone, where possible into a row that the open batch already has. REQUIRES: the
  // message has no locator.
  void PutTombstone(const storage::MessageId& id, const storage::Tombstone& tombstone,
                    storage::Durability durability);

  void PutIndex(storage::TopicId topic, storage::IndexKind kind, std::string name,
                const storage::IndexEntry& entry, storage::Durability durability);

  // Writes an object of this shard, or removes it (absent is no error).
  void PutObject(storage::ObjectKind kind, std::string name, std::string value,
                 storage::Durability durability);
  void RemoveObject(storage::ObjectKind kind, std::string name, storage::Durability durability);

  // The number of the topic's pending messages in this shard, with uncommitted decisions. If the
  // topic's counters are damaged, at least 1 until Recount has counted it. An error means that the
  // store cannot be read.
  absl::StatusOr<int64_t> Pending(storage::TopicId topic);

  // Counts a slice of the messages of topics whose counters are damaged. True if there is more to
  // do now. BeginWaitingCounts reports an error.
  bool Recount();

  // Counts the topic's messages in `quota` from now on, beginning with those that are pending, as
  // soon as they are known.
  absl::Status SetQuota(storage::TopicId topic, std::shared_ptr<protocol::TopicQuota> quota);
  // The topic's quota, or nullptr.
  protocol::TopicQuota* QuotaOf(storage::TopicId topic) const;

  // Sets whether the topic's messages are counted by minute, exactly. The count begins at once or,
  // if batches are in flight, when those are complete.
  void CountMinutes(storage::TopicId topic, bool on);
  // True if counting by minute must begin for some topic and waits for batches in flight. No batch
  // may be taken until then.
  bool waits_to_count() const { return !beginning_.empty() && writes_->batches_in_flight() > 0; }
  MinuteCounts& minutes() { return minutes_; }

  // Erase forgets the message. Whoever accepts a message adds it after the commit.
  RecentMessages& recent() { return recent_; }
  const RecentMessages& recent() const { return recent_; }

  // From now on, the next message of the topic calls Use(), and TakeUsed reports the topic once.
  // Null: no longer.
  void Watch(storage::TopicId topic, std::shared_ptr<protocol::TopicUse> use);
  std::vector<storage::TopicId> TakeUsed() { return std::exchange(used_, {}); }

  // Begins the counts that waited for batches in flight. Call before the batch is taken. An error
  // means that the store could not be read, so that counts are missing. REQUIRES: not
  // waits_to_count().
  absl::Status BeginWaitingCounts();

 private:
  void AddTrace(const storage::MessageId& id, std::string row, storage::Durability durability);
  void AddObject(storage::RecordType type, storage::ObjectKind kind, std::string name,
                 std::string value, storage::Durability durability);
  // The topic gets a message.
  void NoteUse(storage::TopicId topic);
  void Count(storage::TopicId topic, const storage::MessageKey& key, int64_t messages);

  // The count of a topic; nullptr if the store cannot be read.
  int64_t* PendingOf(storage::TopicId topic);
  void BeginMinutes(storage::TopicId topic);

  const uint16_t shard_;
  storage::MessageStore* const store_;
  PendingWrites* const writes_;
  RecentMessages recent_;
  absl::flat_hash_map<storage::TopicId, std::shared_ptr<protocol::TopicQuota>> quotas_;
  absl::flat_hash_map<storage::TopicId, std::shared_ptr<protocol::TopicUse>> watched_;
  std::vector<storage::TopicId> used_;
  // Pending messages by topic, with uncommitted decisions. The store's counter may or may not
  // include a batch in flight, so it is read before the first decision that changes it.
  absl::node_hash_map<storage::TopicId, int64_t> pending_;
  // Counts the topics whose entry in pending_ begins at 0 because of damage.
  PendingRecount recount_;
  // The positions of the latest rows of tombstones in the open batch, whose number is
  // `rows_batch_`. Key: the high half of the ids, the topic and the state.
  absl::flat_hash_map<std::tuple<uint64_t, storage::TopicId, storage::EndState>, size_t> rows_;
  uint64_t rows_batch_ = 0;
  // The topic that was counted last, because the messages of a batch are often alike.
  storage::TopicId last_topic_{};
  int64_t* last_pending_ = nullptr;
  // Not OK once a counter could not be read.
  absl::Status read_status_;
  MinuteCounts minutes_;
  // Topics whose minutes will be counted once no batch is in flight: until then the store may or
  // may not have their latest counts.
  absl::flat_hash_set<storage::TopicId> beginning_;
};

}  // namespace duetime::scheduler
