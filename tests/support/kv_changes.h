// SPDX-License-Identifier: Apache-2.0
//
// KvChanges: a batch that keeps its changes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "storage/kv_store.h"

namespace duetime::test {

struct KvChange {
  enum class Kind : uint8_t { kPut, kDelete, kMerge };

  Kind kind{};
  storage::ColumnFamily family{};
  std::string key;
  std::string value;
};

class KvChanges final : public storage::KvBatch {
 public:
  void Put(storage::ColumnFamily family, absl::string_view key, absl::string_view value) override {
    Add(KvChange::Kind::kPut, family, key, value);
  }
  void Delete(storage::ColumnFamily family, absl::string_view key) override {
    Add(KvChange::Kind::kDelete, family, key, "");
  }
  void Merge(storage::ColumnFamily family, absl::string_view key,
             absl::string_view change) override {
    Add(KvChange::Kind::kMerge, family, key, change);
  }

  const std::vector<KvChange>& changes() const { return changes_; }

  // Makes the same calls on another batch.
  void AddTo(storage::KvBatch* batch) const {
    for (const KvChange& change : changes_) {
      switch (change.kind) {
        case KvChange::Kind::kPut:
          batch->Put(change.family, change.key, change.value);
          break;
        case KvChange::Kind::kDelete:
          batch->Delete(change.family, change.key);
          break;
        case KvChange::Kind::kMerge:
          batch->Merge(change.family, change.key, change.value);
          break;
      }
    }
  }

 private:
  void Add(KvChange::Kind kind, storage::ColumnFamily family, absl::string_view key,
           absl::string_view value) {
    changes_.push_back({kind, family, std::string(key), std::string(value)});
  }

  std::vector<KvChange> changes_;
};

}  // namespace duetime::test
