// SPDX-License-Identifier: Apache-2.0
//
// PendingWrites: the decisions of a shard, or of the catalog, that are not in the journal yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"

#include "server/base/check.h"
#include "server/base/clock.h"
#include "storage/journal.h"

namespace duetime::scheduler {

// Gathers the records of its owner's decisions into batches, and keeps the continuations of each
// batch until its outcome is known: decide -> append -> apply, never apply before append.
//
// Guarantees: (1) records and continuations keep the order in which they were added, within and
// across batches; (2) every continuation runs exactly once, with `accepted` false if its batch was
// not appended. Thread safety: confined to the owner's engine thread.
class PendingWrites {
 public:
  // Runs when the outcome of the batch is known. Changes memory only if `accepted`.
  using Continuation = absl::AnyInvocable<void(base::Now now, bool accepted)>;

  struct Batch {
    uint64_t sequence = 0;
    storage::RecordBatch records;
    storage::Durability durability = storage::Durability::kBuffered;
  };

  // Adds a record to the open batch. One synced record makes the whole batch synced.
  void Add(storage::Record record, storage::Durability durability) {
    Need(durability);
    open_bytes_ += record.value.size() + record.progress.last_attempts.size();
    open_.records.push_back(std::move(record));
  }

  // Replaces a record of the open batch. REQUIRES: `position` < open_records().size().
  void Replace(size_t position, storage::Record record) {
    DT_CHECK_LT(position, open_.records.size());
    open_bytes_ += record.value.size();
    open_bytes_ -= open_.records[position].value.size();
    open_.records[position] = std::move(record);
  }

  // Extends the value of a record of the open batch: calls `extend(std::string* value)`, and
  // returns its answer. REQUIRES: `position` < open_records().size().
  template <typename Extend>
  bool ExtendValue(size_t position, storage::Durability durability, Extend extend) {
    DT_CHECK_LT(position, open_.records.size());
    std::string& value = open_.records[position].value;
    const size_t before = value.size();
    if (!extend(&value)) return false;
    open_bytes_ += value.size() - before;
    Need(durability);
    return true;
  }

  // Adds a continuation to the open batch. It runs when every decision so far is in the journal.
  void Then(Continuation continuation) {
    hurries_ = true;
    continuations_.push_back(std::move(continuation));
  }
  // The same for a continuation that may run a little later.
  void ThenAtLeisure(Continuation continuation) {
    continuations_.push_back(std::move(continuation));
  }

  // Closes the open batch and returns it; nothing if it has neither record nor continuation.
  std::optional<Batch> Take() {
    if (open_.records.empty() && continuations_.empty()) return std::nullopt;
    taken_.push_back(std::move(continuations_));
    continuations_.clear();
    open_.sequence = ++last_taken_;
    Batch batch = std::move(open_);
    Clear();
    return batch;
  }

  // Runs the continuations of the batch `sequence`, which was appended or not. REQUIRES: sequences
  // come in the order of Take.
  void Complete(base::Now now, uint64_t sequence, bool accepted) {
    DT_CHECK(!taken_.empty());
    DT_CHECK_EQ(sequence, last_taken_ - taken_.size() + 1);
    std::vector<Continuation> continuations = std::move(taken_.front());
    taken_.pop_front();
    for (Continuation& continuation : continuations) continuation(now, accepted);
  }

  // Nothing more will be appended: runs the continuations of the open batch as not accepted and
  // drops its records.
  void Abandon(base::Now now) {
    std::vector<Continuation> continuations = std::move(continuations_);
    continuations_.clear();
    Clear();
    for (Continuation& continuation : continuations) continuation(now, false);
  }

  const storage::RecordBatch& open_records() const { return open_.records; }
  // The bytes of their values, and of the attempts of progress.
  size_t open_bytes() const { return open_bytes_; }
  // The number of batches begun. It changes when positions in open_records() become invalid.
  uint64_t batches_begun() const { return batches_begun_; }
  // The sequence of the open batch, which the next Take returns.
  uint64_t open_sequence() const { return last_taken_ + 1; }

  // True if the open batch has continuations but no records, and no batch is in flight, so that the
  // continuations may run at once.
  bool holds_already() const {
    return taken_.empty() && open_.records.empty() && !continuations_.empty();
  }

  // True if the open batch has records, and nothing waits for them.
  bool may_wait() const { return !open_.records.empty() && !hurries_; }

  size_t batches_in_flight() const { return taken_.size(); }
  bool idle() const { return taken_.empty() && open_.records.empty() && continuations_.empty(); }

 private:
  void Need(storage::Durability durability) {
    if (durability != storage::Durability::kSynced) return;
    open_.durability = durability;
    hurries_ = true;
  }
  void Clear() {
    open_ = Batch{};
    open_bytes_ = 0;
    hurries_ = false;
    ++batches_begun_;
  }

  Batch open_;
  uint64_t batches_begun_ = 1;
  size_t open_bytes_ = 0;
  bool hurries_ = false;
  std::vector<Continuation> continuations_;
  std::deque<std::vector<Continuation>> taken_;
  uint64_t last_taken_ = 0;
};

}  // namespace duetime::scheduler
