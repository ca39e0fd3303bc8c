// SPDX-License-Identifier: Apache-2.0
//
// Committer: one thread that appends for all shards and the catalog.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

#include "server/base/clock.h"
#include "server/base/mutex.h"
#include "server/protocol/tags.h"
#include "server/runtime/commit_stats.h"
#include "server/runtime/mailbox.h"
#include "server/runtime/runtime_options.h"
#include "storage/journal.h"

namespace duetime::runtime {

// The participant that submitted a batch: a shard by its number, or the catalog.
inline constexpr uint16_t kCatalogParticipant = protocol::kShardCountMax;
inline constexpr size_t kParticipantsMax = protocol::kShardCountMax + 1;

// A batch that waits for the journal.
struct Submission {
  uint16_t participant = 0;
  // The mailbox that gets the completion. REQUIRES: outlives the committer's thread.
  CompletionSink* reply_to = nullptr;
  uint64_t sequence = 0;
  storage::RecordBatch records;
  // The approximate size of the records.
  size_t bytes = 0;
  storage::Durability durability = storage::Durability::kBuffered;
};

// The approximate size of records in bytes.
size_t BytesOf(const storage::RecordBatch& records);

// Group commit: while one group is in fsync the next one gathers, so the size of a group follows
// the load and no timer is involved. The engines bound the waiting batches: an engine with too many
// uncommitted records takes no commands.
//
// Guarantees: (1) the committer appends and completes the batches of a participant in the order of
// Submit; (2) a group is synced if any of its batches requires it; (3) after the first outcome
// other than kAccepted the committer appends nothing, and every later batch completes as kFenced
// (P7); (4) every submitted batch completes, also after Stop.
//
// Thread safety: Submit, Fence, failed and stats may be called from any thread.
class Committer {
 public:
  // REQUIRES: `journal` outlives the committer.
  Committer(const GroupLimits& limits, storage::Journal* journal);
  ~Committer();
  Committer(const Committer&) = delete;
  Committer& operator=(const Committer&) = delete;

  void Start();
  // Appends all submitted batches, then ends the thread. Idempotent. REQUIRES: there are no further
  // calls of Submit.
  void Stop();

  void Submit(Submission submission);

  // Stops appending after the current group, because a shard or the catalog found that its
  // store cannot be trusted.
  void Fence() { failed_.store(true); }
  bool failed() const { return failed_.load(); }

  // Journal::MayServe. Reads the clock only if the answer needs it.
  bool MayServe(base::Clock* clock) const {
    return !shared_ || journal_->MayServe(clock->Read().mono_ms);
  }

  CommitStats stats() const;

 private:
  void Run();
  // Moves submitted batches into pending_; waits for the first one, or until it is time to append
  // an empty group. Returns false when the thread must end.
  bool Gather();
  // Returns false if it is time for an empty group.
  bool WaitForWork() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Moves the next group from pending_, which may be empty, into group_, and adds up its records,
  // bytes and durability.
  void FormGroup();
  void Append();
  void Report(storage::AppendOutcome outcome);

  const GroupLimits limits_;
  storage::Journal* const journal_;
  std::thread thread_;
  // Other machines may have the journal, too.
  const bool shared_;
  std::atomic<bool> failed_{false};

  mutable base::Mutex mutex_;
  base::CondVar wake_;
  std::vector<Submission> queue_ ABSL_GUARDED_BY(mutex_);
  uint64_t last_append_micros_ ABSL_GUARDED_BY(mutex_) = 0;
  bool waiting_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  CommitStats stats_ ABSL_GUARDED_BY(mutex_);

  // Confined to the committer's thread. Batches of pending_ before next_ are already in a group.
  std::vector<Submission> pending_;
  size_t next_ = 0;
  std::vector<storage::RecordBatch> group_;
  size_t group_begin_ = 0;
  size_t group_records_ = 0;
  size_t group_bytes_ = 0;
  storage::Durability group_durability_{};
  std::array<std::vector<Completion>, kParticipantsMax> completions_;
};

}  // namespace duetime::runtime
