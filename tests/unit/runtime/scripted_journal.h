// SPDX-License-Identifier: Apache-2.0
//
// A journal that a test controls.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "server/base/mutex.h"
#include "storage/journal.h"

namespace duetime::runtime {

// Records all appends. Each append waits until the test gives it an outcome. Thread-safe.
class ScriptedJournal final : public storage::Journal {
 public:
  // One append. The value of its first record identifies a batch.
  struct Seen {
    std::vector<std::string> batches;
    size_t records = 0;
    bool synced = false;
  };

  storage::AppendOutcome Append(std::span<const storage::RecordBatch> group,
                                storage::Durability durability) override {
    Seen append;
    append.synced = durability == storage::Durability::kSynced;
    for (const storage::RecordBatch& batch : group) {
      append.batches.push_back(batch.at(0).value);
      append.records += batch.size();
    }
    base::MutexLock lock(&mutex_);
    appends_.push_back(append);
    changed_.NotifyAll();
    while (outcomes_.empty()) changed_.Wait(&mutex_);
    const storage::AppendOutcome outcome = outcomes_.front();
    outcomes_.pop_front();
    return outcome;
  }

  uint64_t idle_append_ms() const override { return idle_ms; }
  // Set before the committer starts.
  uint64_t idle_ms = 0;

  // Gives one append, waiting now or later, this outcome.
  void Let(storage::AppendOutcome outcome) {
    base::MutexLock lock(&mutex_);
    outcomes_.push_back(outcome);
    changed_.NotifyAll();
  }

  // Waits until `count` appends have begun, and returns them.
  std::vector<Seen> WaitForAppends(size_t count) {
    base::MutexLock lock(&mutex_);
    while (appends_.size() < count) changed_.Wait(&mutex_);
    return appends_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<Seen> appends_ ABSL_GUARDED_BY(mutex_);
  std::deque<storage::AppendOutcome> outcomes_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::runtime
