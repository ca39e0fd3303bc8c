// SPDX-License-Identifier: Apache-2.0
//
// Committer: one thread that appends for all shards.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "server/base/mutex.h"
#include "server/delivery/commands.h"
#include "server/runtime/commit_stats.h"
#include "server/runtime/mailbox.h"
#include "storage/journal.h"

namespace duetime::runtime {

// A batch on its way to the journal.
struct Submission {
  uint16_t shard = 0;
  // Where its fate is told. REQUIRES: outlives the committer's thread.
  Mailbox* reply_to = nullptr;
  uint64_t sequence = 0;
  storage::RecordBatch records;
  // About what the records take, in bytes.
  size_t bytes = 0;
  storage::Durability durability = storage::Durability::kBuffered;
};

// How much goes into one append, at most; a single larger batch goes alone.
struct GroupLimits {
  size_t records_max = 0;
  size_t bytes_max = 0;
};

// Group commit. While one group is in fsync the next gathers, so the size of groups follows the
// load and no timer is involved. Waiting batches are bounded by the engines, which take no commands
// while too much of theirs is under way.
//
// Guarantees: (1) batches are appended and their fates told in the order of Submit, per shard; (2)
// a group is synced if any batch of it asks; (3) after the first outcome but kAccepted nothing is
// appended any more, and every batch that was not part of that append completes as kFenced (P7);
// (4) every submitted batch completes, also after Stop. Thread safety: Submit, Fence, failed and
// stats from any thread.
class Committer {
 public:
  // REQUIRES: `journal` outlives the committer.
  Committer(const GroupLimits& limits, storage::Journal* journal);
  ~Committer();
  Committer(const Committer&) = delete;
  Committer& operator=(const Committer&) = delete;

  void Start();
  // Appends what has been submitted, then ends the thread. REQUIRES: nobody submits any more.
  // Idempotent.
  void Stop();

  void Submit(Submission submission);

  // Appends nothing more from the next group on: a shard found that its store cannot be trusted.
  void Fence() { failed_.store(true); }
  bool failed() const { return failed_.load(); }

  CommitStats stats() const;

 private:
  void Run();
  // Fills pending_ with what was submitted; waits for it. False when it is time to end.
  bool Gather();
  // Moves the next group from pending_ into group_ and group_items_.
  void FormGroup();
  void Append();
  void Report(storage::AppendOutcome outcome);

  const GroupLimits limits_;
  storage::Journal* const journal_;
  std::thread thread_;
  std::atomic<bool> failed_{false};

  mutable base::Mutex mutex_;
  base::CondVar wake_;
  std::vector<Submission> queue_ ABSL_GUARDED_BY(mutex_);
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  CommitStats stats_ ABSL_GUARDED_BY(mutex_);

  // The committer's thread only. pending_ from next_ on is taken but not appended yet.
  std::vector<Submission> pending_;
  size_t next_ = 0;
  std::vector<storage::RecordBatch> group_;
  size_t group_begin_ = 0;
  size_t group_records_ = 0;
  size_t group_bytes_ = 0;
  storage::Durability group_durability_{};
  std::array<std::vector<Completion>, delivery::kShardCountMax> completions_;
};

}  // namespace duetime::runtime
