// SPDX-License-Identifier: Apache-2.0
//
// MemoryShare: decides which due messages may be kept in memory.
#pragma once

#include <cstddef>

#include "server/base/check.h"
#include "server/delivery/pending_deliveries.h"
#include "server/delivery/shard_limits.h"
#include "server/delivery/subscriptions/subscription.h"

namespace duetime::delivery {

// Divides the shard's memory for due messages (P6). While there are fewer than due_max entries, a
// subscription with streams takes as many as it needs, and a subscription without streams takes at
// most due_idle_max. Beyond due_max a subscription with streams keeps due_idle_max entries, up to 2
// * due_max in all. Entries that wait for their ordering key take half of due_max at most, beside
// the others.
//
// Counts the entries of the table and those of backlog pages that wait for their claim. Thread
// safety: confined to the engine thread.
class MemoryShare {
 public:
  // REQUIRES: `table` outlives it.
  MemoryShare(const ShardLimits& limits, const PendingDeliveries* table)
      : due_max_(limits.due_max), due_idle_max_(limits.due_idle_max), table_(table) {
    DT_CHECK(table_ != nullptr);
    DT_CHECK_GT(due_max_, 0u);
  }

  // True if memory is full, so that a delayed message must wait on disk. Entries that wait for
  // their ordering key do not count, because RoomToWait bounds them: a held key must not fill the
  // memory.
  bool full() const { return table_->size() - blocked() >= due_max_; }

  // Entries that may be added for messages of the backlog.
  size_t RoomToReadBack() const {
    const size_t used = table_->size() + reserved_;
    return used >= 2 * due_max_ ? 0 : 2 * due_max_ - used;
  }

  // True if one more new message of the subscription may be kept in memory.
  bool FitsNew(const Subscription& subscription) const {
    // It comes after the messages on disk.
    if (subscription.backlog.behind() || subscription.order.wants_read()) return false;
    const bool small = subscription.counts.total < due_idle_max_;
    if (!subscription.served() && !small) return false;
    if (table_->size() + reserved_ < due_max_) return true;
    return subscription.served() && small && RoomToReadBack() > 0;
  }

  // True if a page of the subscription's backlog may be read back, once there is room.
  bool FitsReadBack(const Subscription& subscription) const {
    const EntryCounts& counts = subscription.counts;
    return !full() || counts.total - counts.of(EntryState::kBlocked) < due_idle_max_;
  }

  // How many entries of one ordering key may wait for the key. All keys of the shard share half of
  // due_max, and each takes as much as is free: one key half of it, two keys a third each. So no
  // key takes the room of another one.
  size_t RoomToWait() const { return due_max_ / 2 > blocked() ? due_max_ / 2 - blocked() : 0; }

  // Keeps room for a page that waits for its claim.
  void Reserve(size_t entries) {
    DT_CHECK_LE(entries, RoomToReadBack());
    reserved_ += entries;
  }
  void Unreserve(size_t entries) {
    DT_CHECK_GE(reserved_, entries);
    reserved_ -= entries;
  }

  void CheckInvariants() const { DT_CHECK_LE(table_->size(), 2 * due_max_); }

 private:
  size_t blocked() const { return table_->count(EntryState::kBlocked); }

  const size_t due_max_;
  const size_t due_idle_max_;
  const PendingDeliveries* const table_;
  size_t reserved_ = 0;
};

}  // namespace duetime::delivery
