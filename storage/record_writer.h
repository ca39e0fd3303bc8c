// SPDX-License-Identifier: Apache-2.0
//
// RecordWriter: writes records as keys and values.
#pragma once

#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "storage/count_group.h"
#include "storage/journal.h"
#include "storage/key_codec.h"
#include "storage/kv_store.h"
#include "storage/subscription_starts.h"
#include "storage/types.h"

namespace duetime::storage {

// Memory: reuses that of the largest group so far. Thread safety: confined to one thread.
class RecordWriter {
 public:
  // Reads the starts of subscriptions. Call once, first.
  absl::Status Open(KvSource* source, uint16_t shard_count);
  // Sorts a group and adds up the changes of its counters. Reads `source` only if a subscription
  // begins or ends. REQUIRES: `group` stays until Write. An error: the store cannot be used.
  absl::Status Prepare(std::span<const RecordBatch> group, KvSource* source);
  // Adds the changes of the prepared group to a batch, in the order of their keys, and the changes
  // of the counters.
  void Write(KvBatch* batch);

 private:
  // A record with its key, for sorting.
  struct Entry {
    StoreKey key;
    const Record* record = nullptr;
  };

  static StoreKey KeyOf(const Record& record);
  static bool IsStart(const Record& record) {
    return (record.type == RecordType::kObject || record.type == RecordType::kUnobject) &&
           ObjectKind{record.kind} == ObjectKind::kSubscriptionStart;
  }

  // Adds the changes of what subscriptions are done with because their messages are older.
  absl::Status CountOlder(std::span<const RecordBatch> group, KvSource* source);
  absl::Status Begin(std::span<const RecordBatch> group, const Record& start, KvSource* source);
  absl::Status End(const Record& start, KvSource* source);

  void Add(const Entry& entry, KvBatch* batch);
  // The full key of an entry whose key does not fit a StoreKey.
  absl::string_view LongKey(const Entry& entry);

  // Of one call.
  std::vector<Entry> entries_;
  CountGroup counts_;
  // Counters of subscriptions that end, and the first ones of those that begin.
  std::vector<StoreKey> dropped_;
  std::vector<std::pair<StoreKey, std::string>> copied_;
  // Starts that are not stored.
  std::vector<const Record*> refused_;
  std::string long_key_;

  SubscriptionStarts starts_;
};

}  // namespace duetime::storage
