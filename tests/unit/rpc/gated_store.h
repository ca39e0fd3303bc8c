// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "server/base/mutex.h"
#include "tests/support/test_store.h"

namespace duetime::rpc {

// A store that can hold up its appends, like a disk that does not answer, and the reading of one
// shard's counts.
class GatedStore final : public test::TestStore {
 public:
  using test::TestStore::TestStore;
  storage::AppendOutcome Append(std::span<const storage::RecordBatch> group,
                                storage::Durability durability) override {
    base::MutexLock lock(&mutex_);
    while (!open_ || (held_type_.has_value() && Has(group, *held_type_))) {
      if (let_through_ > 0) {
        --let_through_;
        break;
      }
      append_waits_ = true;
      changed_.NotifyAll();
      changed_.Wait(&mutex_);
    }
    append_waits_ = false;
    return TestStore::Append(group, durability);
  }
  void SetOpen(bool open) {
    base::MutexLock lock(&mutex_);
    open_ = open;
    changed_.NotifyAll();
  }
  // Lets one append pass: the first one that waits now or later.
  void LetOneThrough() {
    base::MutexLock lock(&mutex_);
    ++let_through_;
    changed_.NotifyAll();
  }
  // Holds up only the appends with a record of this type. nullopt: holds up none.
  void HoldAppends(std::optional<storage::RecordType> type) {
    base::MutexLock lock(&mutex_);
    held_type_ = type;
    changed_.NotifyAll();
  }
  // Waits until an append is held up.
  void AwaitAppend() {
    base::MutexLock lock(&mutex_);
    while (!append_waits_) changed_.Wait(&mutex_);
  }

  absl::Status ReadCounts(uint16_t shard, storage::TopicId topic, storage::CountLevel level,
                          const storage::MsRange& times, size_t limit,
                          std::vector<storage::BucketCount>* counts) override {
    base::MutexLock lock(&mutex_);
    while (held_ == shard) {
      counts_wait_ = true;
      changed_.NotifyAll();
      changed_.Wait(&mutex_);
    }
    return TestStore::ReadCounts(shard, topic, level, times, limit, counts);
  }
  void HoldCounts(uint16_t shard) {
    base::MutexLock lock(&mutex_);
    held_ = shard;
  }
  // Waits until a reader is held up at the counts.
  void AwaitCounts() {
    base::MutexLock lock(&mutex_);
    while (!counts_wait_) changed_.Wait(&mutex_);
  }
  void ReleaseCounts() {
    base::MutexLock lock(&mutex_);
    held_.reset();
    changed_.NotifyAll();
  }
  bool counts_held() {
    base::MutexLock lock(&mutex_);
    return held_.has_value();
  }

 private:
  static bool Has(std::span<const storage::RecordBatch> group, storage::RecordType type) {
    for (const storage::RecordBatch& batch : group) {
      for (const storage::Record& record : batch) {
        if (record.type == type) return true;
      }
    }
    return false;
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  bool open_ ABSL_GUARDED_BY(mutex_) = true;
  std::optional<storage::RecordType> held_type_ ABSL_GUARDED_BY(mutex_);
  bool append_waits_ ABSL_GUARDED_BY(mutex_) = false;
  size_t let_through_ ABSL_GUARDED_BY(mutex_) = 0;
  std::optional<uint16_t> held_ ABSL_GUARDED_BY(mutex_);
  bool counts_wait_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace duetime::rpc
