// SPDX-License-Identifier: Apache-2.0
//
// RepairCopy: copies the records of a damaged store into a new one, and mends what contradicts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "storage/count_group.h"
#include "storage/key_codec.h"
#include "storage/message_record.h"
#include "storage/repair/repair.h"
#include "storage/repair/repair_source.h"
#include "storage/rocksdb/rocksdb_database.h"
#include "storage/subscription_starts.h"

namespace duetime::storage {

// Copies family by family. The messages come first: what else is copied depends on which of them
// exist in the target.
//
// Confined to one thread.
class RepairCopy {
 public:
  // REQUIRES: `target` is a new store. `topics_of` may be empty; it outlives this object.
  RepairCopy(RepairSource* source, RocksDbDatabase* target, RepairReport* report, uint64_t now_ms,
             const TopicsOfObject& topics_of)
      : source_(*source),
        target_(*target),
        report_(*report),
        now_ms_(now_ms),
        topics_of_(topics_of) {}

  // Everything is durable when it returns OK.
  absl::Status Run();

 private:
  using Take = std::function<absl::Status(absl::string_view key, absl::string_view value)>;
  struct Change {
    ColumnFamily family{};
    std::string key;
    std::string value;
  };

  // The steps of Run, in order.
  absl::Status CopyMeta();
  absl::Status CopyObjects();
  absl::Status CopyMessages();
  absl::Status CopyLocators();
  absl::Status CopyBacklog();
  absl::Status CopyProgress();
  absl::Status CopyIndex();
  absl::Status NameTopics();
  absl::Status IndexKeys();
  absl::Status CompareCounts();
  void ReportBlocks();
  absl::Status Finish();
  void AddLastRecords(KvBatch* batch);

  absl::Status TakeMeta(absl::string_view key, absl::string_view value);
  absl::Status TakeObject(absl::string_view key, absl::string_view value);
  absl::Status TakeMessage(absl::string_view key, absl::string_view value);
  // Decides whether a message is copied: false if it has ended, or was moved to another place.
  absl::StatusOr<bool> IsCurrent(uint16_t shard, const MessageKey& key);
  absl::Status TakeBacklogEntry(absl::string_view key, absl::string_view value);
  absl::Status TakeProgress(absl::string_view key, absl::string_view value);
  absl::Status TakeIndexEntry(absl::string_view key, absl::string_view value);
  absl::Status Compare(const CountPlace& place, absl::string_view expected);
  void CompareDay(const CountPlace& place, absl::string_view expected, absl::string_view found);

  // Passes every readable record of a family to `take`.
  absl::Status ForEach(ColumnFamily family, const Take& take);
  absl::Status Put(ColumnFamily family, absl::string_view key, absl::string_view value);
  absl::Status Flush();
  // A record names the subscription: see RepairNames::Note.
  void NoteSubscription(SubscriptionId subscription);
  // Reports a record that cannot be decoded.
  absl::Status Undecodable(ColumnFamily family, absl::string_view key);

  absl::StatusOr<bool> TargetHas(ColumnFamily family, absl::string_view key) const;
  absl::StatusOr<bool> TargetHas(const StoreKey& key) const {
    return TargetHas(key.family(), key.bytes());
  }
  // The place of a message in the target; nullopt if it does not have it.
  absl::StatusOr<std::optional<MessageKey>> FindMessage(uint16_t shard, const MessageId& id) const;
  // Reports a message that is not at its place, although another record names it, unless it is at
  // another one. Once per message.
  absl::Status LostMessage(uint16_t shard, const MessageKey& place, absl::string_view where);
  void NoteEpoch(const MessageId& id) { epoch_ = std::max(epoch_, id.epoch()); }

  RepairSource& source_;
  RocksDbDatabase& target_;
  RepairReport& report_;
  const uint64_t now_ms_;
  const TopicsOfObject& topics_of_;

  // What the next Flush writes. The target does not show it yet.
  std::vector<Change> changes_;
  size_t changed_bytes_ = 0;
  CountGroup counts_;
  SubscriptionStarts starts_;
  uint64_t unchecked_bytes_ = 0;
  MessageRecord record_;

  // The greatest epoch that any record names.
  uint64_t epoch_ = 0;
  // By shard.
  std::map<uint16_t, uint64_t> claims_;
  std::map<std::string, std::string> low_watermarks_;
  RepairNames names_;
  // The greatest number of a subscription that is not its topic's first. 0: none.
  uint32_t greatest_subscription_ = 0;
  // The last message that a progress row asked for.
  std::string progress_of_;
  bool progress_kept_ = false;
  std::set<MessageId> lost_;
  uint64_t copied_ = 0;
  uint64_t messages_ = 0;
  uint64_t ended_ = 0;
  uint64_t moved_ = 0;
  uint64_t dropped_ = 0;
  uint64_t indexed_ = 0;
};

}  // namespace duetime::storage
