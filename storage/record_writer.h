// SPDX-License-Identifier: Apache-2.0
//
// RecordWriter: writes records as keys and values.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "storage/count_group.h"
#include "storage/journal.h"
#include "storage/key_codec.h"
#include "storage/kv_store.h"
#include "storage/types.h"

namespace duetime::storage {

// Memory: reuses that of the largest group so far. Thread safety: confined to one thread.
class RecordWriter {
 public:
  // Adds the changes of a group to a batch, in the order of their keys, and the changes of the
  // counters.
  void Write(std::span<const RecordBatch> group, KvBatch* batch);

 private:
  // A record with its key, for sorting.
  struct Entry {
    StoreKey key;
    const Record* record = nullptr;
  };

  static StoreKey KeyOf(const Record& record);

  void Add(const Entry& entry, KvBatch* batch);
  // The full key of an entry whose key does not fit a StoreKey.
  absl::string_view LongKey(const Entry& entry);

  // Of one call.
  std::vector<Entry> entries_;
  CountGroup counts_;
  std::string long_key_;
};

}  // namespace duetime::storage
