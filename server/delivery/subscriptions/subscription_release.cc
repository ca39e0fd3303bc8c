// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/subscriptions/subscription_release.h"

#include <algorithm>

#include "server/base/check.h"
#include "server/delivery/backlog/backlog.h"
#include "server/delivery/backlog/backlog_place.h"
#include "server/delivery/backlog/backlog_reader.h"
#include "server/delivery/delivery_timers.h"
#include "server/delivery/endings/message_ends.h"
#include "server/delivery/memory_share.h"
#include "server/delivery/pace/turns.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/subscriptions/subscription_fill.h"
#include "server/delivery/subscriptions/subscriptions.h"

namespace duetime::delivery {

using storage::BacklogRef;
using storage::MessageKey;

namespace {

// The entries that one step examines and the messages that it drops: about a millisecond.
constexpr EntryIndex kExaminedPerStep = 5000;
constexpr storage::ScanLimit kReleasedPage{.entries = 200, .bytes = 1 << 20};

}  // namespace

SubscriptionRelease::SubscriptionRelease(const Core& core, MessageEnds* ends,
                                         BacklogReader* backlog_reader, SubscriptionFill* fill)
    : core_(core), ends_(ends), backlog_reader_(backlog_reader), fill_(fill) {}

void SubscriptionRelease::Start(Subscription* subscription) {
  DT_CHECK(subscription->state.deleting);
  DT_CHECK_EQ(subscription->streams, 0u);
  DT_CHECK(subscription->available.empty());
  DT_CHECK(!subscription->pacing.throttle.slowed());
  DT_CHECK_EQ(subscription->release_index, 0u);
  releasing_.push_back(subscription);
}

bool SubscriptionRelease::Step(base::Now now) {
  if (releasing_.empty()) return false;
  Subscription* const subscription = releasing_.front();
  releasing_.pop_front();
  // The fill still adds messages, which must be dropped as well.
  if (subscription->filling) {
    releasing_.push_back(subscription);
    return false;
  }
  Progress progress = ReleaseEntries(now, subscription);
  if (progress == Progress::kDone) progress = ReleaseBacklog(now, subscription);
  if (progress != Progress::kDone) {
    releasing_.push_back(subscription);
    return progress == Progress::kMore;
  }
  core_.backlog.Clear(subscription);
  core_.turns.Forget(subscription);
  core_.timers.CancelWake(subscription);
  core_.subscriptions.Remove(subscription);
  return false;
}

SubscriptionRelease::Progress SubscriptionRelease::ReleaseEntries(base::Now now,
                                                                  Subscription* subscription) {
  EntryIndex& index = subscription->release_index;
  DT_CHECK_LE(index, core_.table.capacity());
  const EntryIndex until = std::min(core_.table.capacity(), index + kExaminedPerStep);
  for (size_t released = 0; index < until && released < kReleasedPage.entries; ++index) {
    const PendingDelivery& entry = core_.table[index];
    if (entry.state == EntryState::kFree || entry.subscription != subscription) continue;
    if (!ReleaseEntry(now, index)) return Progress::kBlocked;
    ++released;
  }
  if (index < core_.table.capacity()) return Progress::kMore;
  return subscription->counts.total == 0 ? Progress::kDone : Progress::kBlocked;
}

bool SubscriptionRelease::ReleaseEntry(base::Now now, EntryIndex index) {
  const PendingDelivery& entry = core_.table[index];
  DT_CHECK(entry.subscription->state.deleting);
  if (core_.key_locks.Locked(entry.id) || ends_->AnyEnding(entry.id)) return false;
  if (entry.state == EntryState::kForgetting) return false;
  const auto record = core_.reader.Record(entry.key());
  // The record of a damaged message stays, and the subscription forgets it.
  if (!record.ok() && !storage::IsDamage(record.status())) return false;
  if (record.ok() && record->has_value()) {
    core_.table.Learn(index, **record);
    ends_->Drop(now, index);
  } else {
    ends_->DropStale(index);
  }
  return true;
}

SubscriptionRelease::Progress SubscriptionRelease::ReleaseBacklog(base::Now now,
                                                                  Subscription* subscription) {
  DT_CHECK_EQ(subscription->counts.total, 0u);
  if (subscription->reading || subscription->spills_in_flight > 0 ||
      core_.memory.RoomToReadBack() == 0) {
    return Progress::kBlocked;
  }
  const storage::ScanLimit limit{
      .entries = std::min(kReleasedPage.entries, core_.memory.RoomToReadBack()),
      .bytes = kReleasedPage.bytes};
  const auto page =
      core_.reader.BacklogPage(subscription->state.id, subscription->release_cursor, limit);
  if (!page.ok()) return Progress::kBlocked;
  if (page->damaged && fill_->OnDamage(now, subscription)) {
    subscription->release_cursor = MessageKey{};
    return Progress::kMore;
  }
  if (page->items.empty() && !page->next.has_value()) return Progress::kDone;
  for (const BacklogRef& item : page->items) {
    subscription->release_cursor = item.key;
    if (core_.key_locks.Locked(item.key.id) || ends_->AnyEnding(item.key.id))
      return Progress::kBlocked;
    const EntryIndex index = backlog_reader_->TakeListed(item, subscription);
    if (!core_.reader.ok()) return Progress::kBlocked;
    if (index != kNoEntry) ends_->Drop(now, index);
  }
  subscription->release_cursor =
      page->next.value_or(MessageKey::FirstAt(storage::MessageId::kDueMax));
  return Progress::kMore;
}

}  // namespace duetime::delivery
