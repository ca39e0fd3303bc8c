// SPDX-License-Identifier: Apache-2.0
//
// DeliveryRecords: the records that delivery writes beside messages.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "server/base/check.h"
#include "server/base/clock.h"
#include "server/scheduler/pending_writes.h"
#include "storage/message_store.h"

namespace duetime::delivery {

// Adds progress, backlog and claim records to the open batch.
//
// Until its commit, a progress record that tells of attempts or of a dead letter can be found here
// (Uncommitted), because the store does not have it yet. Memory: what the open batch and the
// batches in flight hold.
//
// All records but the claim are buffered. The loss of a backlog record is harmless: the journal
// keeps the order, so a crash that loses the record also loses every low watermark that relies on
// it. Thread safety: confined to the engine thread.
class DeliveryRecords {
 public:
  // REQUIRES: `writes` outlives it.
  DeliveryRecords(uint16_t shard, scheduler::PendingWrites* writes)
      : shard_(shard), writes_(writes) {
    DT_CHECK(writes_ != nullptr);
  }

  void PutProgress(const storage::MessageKey& key, storage::SubscriptionId subscription,
                   const storage::Progress& progress) {
    // Only a message that waits for its next attempt is listed at the time of that attempt.
    DT_CHECK(!progress.listed || progress.state == storage::Progress::State::kFailed);
    if (!progress.last_attempts.empty() || progress.dead_letter != storage::MessageId{}) {
      Remember({key, subscription}, progress);
    } else {
      uncommitted_.erase({key, subscription});
    }
    storage::Record record = RecordOf(storage::RecordType::kProgress, subscription, key);
    record.progress = progress;
    writes_->Add(std::move(record), storage::Durability::kBuffered);
  }
  // The last progress record with attempts or a dead letter, if it is not committed; else nullptr.
  // Valid until the next call.
  const storage::Progress* Uncommitted(const storage::MessageKey& key,
                                       storage::SubscriptionId subscription) const {
    const auto found = uncommitted_.find({key, subscription});
    return found == uncommitted_.end() ? nullptr : &found->second.progress;
  }
  // `state`: that of the record.
  void RemoveProgress(const storage::MessageKey& key, storage::SubscriptionId subscription,
                      storage::Progress::State state) {
    uncommitted_.erase({key, subscription});
    storage::Record record = RecordOf(storage::RecordType::kUnprogress, subscription, key);
    record.progress.state = state;
    writes_->Add(std::move(record), storage::Durability::kBuffered);
  }

  // Lists a message in the subscription's backlog, at `place`.
  void List(const storage::MessageKey& place, storage::SubscriptionId subscription,
            const storage::BacklogEntry& entry) {
    DT_CHECK(entry.due_ms == 0 || entry.due_ms != place.due_ms);
    storage::Record record = RecordOf(storage::RecordType::kSpill, subscription, place);
    record.backlog = entry;
    writes_->Add(std::move(record), storage::Durability::kBuffered);
  }
  void Unlist(const storage::MessageKey& place, storage::SubscriptionId subscription) {
    writes_->Add(RecordOf(storage::RecordType::kUnspill, subscription, place),
                 storage::Durability::kBuffered);
  }

  // Claims the backlog up to `place`. Its messages may be handed out after the commit.
  void ClaimBacklog(const storage::MessageKey& place, storage::SubscriptionId subscription) {
    writes_->Add(RecordOf(storage::RecordType::kBacklogClaim, subscription, place),
                 storage::Durability::kSynced);
  }

 private:
  using Place = std::pair<storage::MessageKey, storage::SubscriptionId>;
  struct Remembered {
    storage::Progress progress;
    // Of the batch.
    uint64_t sequence = 0;
  };

  void Remember(const Place& place, const storage::Progress& progress) {
    const uint64_t sequence = writes_->open_sequence();
    uncommitted_[place] = {progress, sequence};
    if (batches_.empty() || batches_.back().first != sequence) {
      batches_.emplace_back(sequence, std::vector<Place>());
      writes_->Then([this](base::Now, bool) { ForgetBatch(); });
    }
    batches_.back().second.push_back(place);
  }
  void ForgetBatch() {
    DT_CHECK(!batches_.empty());
    for (const Place& place : batches_.front().second) {
      const auto found = uncommitted_.find(place);
      if (found != uncommitted_.end() && found->second.sequence == batches_.front().first) {
        uncommitted_.erase(found);
      }
    }
    batches_.pop_front();
  }

  storage::Record RecordOf(storage::RecordType type, storage::SubscriptionId subscription,
                           const storage::MessageKey& key) const {
    DT_CHECK(subscription != storage::SubscriptionId{});
    storage::Record record;
    record.type = type;
    record.shard = shard_;
    record.subscription = subscription;
    record.key = key;
    return record;
  }

  const uint16_t shard_;
  scheduler::PendingWrites* const writes_;
  std::map<Place, Remembered> uncommitted_;
  // The batches with such records, by sequence, in order.
  std::deque<std::pair<uint64_t, std::vector<Place>>> batches_;
};

}  // namespace duetime::delivery
