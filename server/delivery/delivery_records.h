// SPDX-License-Identifier: Apache-2.0
//
// DeliveryRecords: the records that delivery writes beside messages.
#pragma once

#include <cstdint>
#include <utility>

#include "server/base/check.h"
#include "server/scheduler/pending_writes.h"
#include "storage/message_store.h"

namespace duetime::delivery {

// Adds progress, backlog and claim records to the open batch.
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
    storage::Record record = RecordOf(storage::RecordType::kProgress, subscription, key);
    record.progress = progress;
    writes_->Add(std::move(record), storage::Durability::kBuffered);
  }
  // `state`: that of the record.
  void RemoveProgress(const storage::MessageKey& key, storage::SubscriptionId subscription,
                      storage::Progress::State state) {
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
};

}  // namespace duetime::delivery
