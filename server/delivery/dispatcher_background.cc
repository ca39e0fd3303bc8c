// SPDX-License-Identifier: Apache-2.0
//
// The part of Dispatcher that works through what many messages have become, a slice at a time:
// those of deleted subscriptions, those kept for long enough, and those that a new subscription is
// for.
#include <algorithm>
#include <optional>
#include <utility>

#include "server/base/check.h"
#include "server/delivery/backlog_place.h"
#include "server/delivery/dispatcher.h"
#include "server/delivery/minute_range.h"

namespace duetime::delivery {

using storage::DeadLetterReason;
using storage::Durability;
using storage::EndState;
using storage::MessageKey;
using storage::Progress;

namespace {

// What one step looks at, and what it changes: a millisecond or so.
constexpr EntryIndex kEntriesPerStep = 5000;
constexpr storage::ScanLimit kPage{.entries = 200, .bytes = 1 << 20};
constexpr size_t kScanMax = 2000;
constexpr storage::ScanLimit kCountedPage{.entries = 2000, .bytes = 1 << 20};
// Subscriptions that one step looks at, each with a page at most; the others have their turn a
// period later.
constexpr size_t kLookedAtPerStep = 100;
// Subscriptions that give up a whole page each.
constexpr size_t kGivingUpPerStep = 4;

// A backlog is counted anew after so much of it was given up, and not less than there is: so that
// costs about one read of a record for each that is given up.
constexpr size_t kRecountAfter = 1000;

}  // namespace

// ---- Deleted subscriptions
// ------------------------------------------------------------------------------------------

void Dispatcher::ReleaseDeleted(base::Now now, bool* more) {
  if (releasing_.empty()) return;
  Subscription* const subscription = releasing_.front();
  releasing_.pop_front();
  // What it is still being given has to be let go as well, or nobody would.
  if (subscription->state.fill_until_ms > 0 || !ReleaseEntries(now, subscription, more) ||
      !ReleaseBacklog(now, subscription, more)) {
    // Others take their turn.
    releasing_.push_back(subscription);
    return;
  }
  subscription->state.deleted = true;
  Save(*subscription);
  // The object stays in memory until the restart: queues may still name it.
  std::erase(subscription->topic->subscriptions, subscription);
  if (subscription->behind) --behind_;
  subscription->behind = false;
  subscription->parked.reset();
  subscription->listed.Clear();
}

bool Dispatcher::ReleaseEntries(base::Now now, Subscription* subscription, bool* more) {
  EntryIndex& index = subscription->release_index;
  const EntryIndex until = std::min(table_.capacity(), index + kEntriesPerStep);
  for (size_t released = 0; index < until && released < kPage.entries; ++index) {
    DueEntry& entry = table_[index];
    if (entry.state == EntryState::kFree || entry.subscription != subscription) continue;
    // It is looked at again when that is over.
    if (latches_->Held(entry.id) || Ending(entry.id)) return false;
    if (entry.state == EntryState::kForgetting) return false;
    ++released;
    std::optional<std::string> record;
    if (!ReadRecord(entry.key(), &record)) return false;
    if (record.has_value()) {
      Learn(index, *record);
      Drop(now, index);
    } else {
      DropEcho(index);
    }
  }
  if (index < table_.capacity()) *more = true;
  // What is on its way to the journal brings us back.
  return index >= table_.capacity() && subscription->entries == 0;
}

bool Dispatcher::ReleaseBacklog(base::Now now, Subscription* subscription, bool* more) {
  if (subscription->reading || subscription->spills_in_flight > 0 || RoomToReadBack() == 0) {
    return false;
  }
  const storage::ScanLimit limit{.entries = std::min(kPage.entries, RoomToReadBack()),
                                 .bytes = kPage.bytes};
  storage::Page<storage::BacklogRef> page;
  if (absl::Status status = store_->ScanBacklog(shard_, subscription->state.id,
                                                subscription->release_cursor, limit, &page);
      !status.ok()) {
    read_error_ = status;
    return false;
  }
  for (const storage::BacklogRef& item : page.items) {
    const MessageKey key = KeyOf(item);
    subscription->release_cursor = item.key;
    if (latches_->Held(key.id) || Ending(key.id)) return false;
    const EntryIndex index = TakeListed(item, subscription);
    if (!read_error_.ok()) return false;
    if (index == kNoEntry) continue;
    Drop(now, index);
  }
  if (!page.items.empty()) {
    subscription->release_cursor =
        page.next.value_or(MessageKey::FirstAt(storage::MessageId::kDueMax));
    *more = true;
  }
  return page.items.empty();
}

void Dispatcher::Drop(base::Now now, EntryIndex index) {
  SettleEntry(now, index, EndState::kDropped, Durability::kBuffered);
  ++stats_->dropped;
  outbox_->Then([this, index](base::Now, bool accepted) {
    if (accepted) FinishEnd(index);
  });
}

void Dispatcher::DropEcho(EntryIndex index) {
  TakeOut(index);
  const DueEntry& entry = table_[index];
  if (entry.spilled) AddUnspill(entry.place(), *entry.subscription);
  FinishEnd(index);
}

EntryIndex Dispatcher::TakeListed(const storage::BacklogRef& item, Subscription* subscription) {
  const MessageKey key = KeyOf(item);
  std::optional<std::string> record;
  if (!ReadRecord(key, &record) || !ReadRows(key)) return kNoEntry;
  const Progress* const row = RowOf(subscription->state.id);
  if (!record.has_value() || (row != nullptr && row->state == Progress::State::kSettled)) {
    AddUnspill(item.key, *subscription);  // an echo
    return kNoEntry;
  }
  if (absl::Status status = ReadRecoveredClaim(subscription); !status.ok()) {
    read_error_ = status;
    return kNoEntry;
  }
  const EntryIndex index = AddEntry(key, item.entry.bytes, subscription);
  DueEntry& entry = table_[index];
  entry.state = EntryState::kTaken;
  entry.attempts = std::max(item.entry.attempts, row != nullptr ? row->attempts : 0);
  entry.maybe_delivered = item.entry.maybe_delivered || ClaimedBefore(*subscription, item.key);
  entry.spilled = true;
  entry.listed_ms = item.key.due_ms;
  entry.progress = row != nullptr || item.entry.attempts > 0;
  Learn(index, *record);
  return index;
}

// ---- Kept for long enough
// -------------------------------------------------------------------------------------------

bool Dispatcher::TooOld(base::Now now, const DueEntry& entry) const {
  const uint64_t retention_ms = entry.subscription->state.settings.retention_ms;
  return retention_ms > 0 && now.wall_ms > entry.due_ms + retention_ms;
}

bool Dispatcher::TooMany(const Subscription& subscription) const {
  const uint64_t max = subscription.state.settings.retention_max_messages;
  const uint64_t shards = store_->shard_count();
  return max > 0 &&
         subscription.ready.count + subscription.listed.count() > (max + shards - 1) / shards;
}

bool Dispatcher::GiveUp(base::Now now, EntryIndex index) {
  Subscription* const subscription = table_[index].subscription;
  if (subscription->state.settings.retention_policy == RetentionPolicy::kDeadLetter) {
    return DeadLetter(now, index, DeadLetterReason::kRetention, "");
  }
  ++subscription->dropped;
  Drop(now, index);
  return true;
}

bool Dispatcher::GiveUpOld(base::Now now) {
  bool more = false;
  bool counted = false;
  size_t full = 0;
  for (size_t i = std::min(retaining_.size(), kLookedAtPerStep); i > 0 && full < kGivingUpPerStep;
       --i) {
    Subscription* const subscription = retaining_.front();
    retaining_.pop_front();
    retaining_.push_back(subscription);
    if (!subscription->listed.known() && !counted && subscription->bounded()) {
      counted = CountListed(subscription);
      if (counted) more = true;
    }
    if (GiveUpReady(now, subscription) || GiveUpListed(now, subscription)) ++full;
  }
  return more || full > 0;
}

bool Dispatcher::CountListed(Subscription* subscription) {
  BacklogCount& listed = subscription->listed;
  // What is on its way from the disk or to it would be counted twice, or not at all.
  if (subscription->state.fill_until_ms > 0) return false;
  if (listed.cursor() == MessageKey{} &&
      (subscription->reading || subscription->spills_in_flight > listed.arriving())) {
    return false;
  }
  subscription->given_up = 0;
  if (!subscription->has_backlog()) {
    listed.Clear();
    return false;
  }
  const MessageKey from =
      std::max(listed.cursor(), subscription->parked.value_or(subscription->backlog_cursor));
  storage::Page<storage::BacklogRef> page;
  if (absl::Status status =
          store_->ScanBacklog(shard_, subscription->state.id, from, kCountedPage, &page);
      !status.ok()) {
    read_error_ = status;
    return false;
  }
  if (page.items.empty()) {
    listed.Finish();
    return false;
  }
  // What is on its way to the list is counted when it is there, what is on its way out is not.
  const auto only_there = [this, subscription](const storage::BacklogRef& item) {
    const EntryIndex index = table_.Find(item.key.id, subscription);
    return (index == kNoEntry || table_[index].place() != item.key) &&
           !subscription->listed.IsArriving(item.key.id) && !latches_->Held(item.key.id);
  };
  listed.Walked(
      static_cast<size_t>(std::count_if(page.items.begin(), page.items.end(), only_there)),
      After(page.items.back().key));
  return true;
}

bool Dispatcher::GiveUpReady(base::Now now, Subscription* subscription) {
  for (size_t i = 0; i < kPage.entries && letters_left_ > 0; ++i) {
    const EntryIndex index = subscription->ready.head;
    if (index == kNoEntry) return false;
    const DueEntry& entry = table_[index];
    if (!TooOld(now, entry) && !TooMany(*subscription)) return false;
    if (latches_->Held(entry.id) || EndingWhole(entry.key())) return false;
    std::optional<std::string> record;
    if (!ReadRecord(entry.key(), &record)) return false;
    if (record.has_value()) {
      Learn(index, *record);
      if (!GiveUp(now, index)) return false;
    } else {
      DropEcho(index);
    }
  }
  return true;
}

bool Dispatcher::GiveUpListed(base::Now now, Subscription* subscription) {
  const storage::ScanLimit limit{.entries = std::min(kPage.entries, RoomToReadBack()),
                                 .bytes = kPage.bytes};
  if (!subscription->has_backlog() || subscription->reading || limit.entries == 0) return false;
  // A page for nothing, with many that are only bounded by number.
  if (subscription->state.settings.retention_ms == 0 && !TooMany(*subscription)) return false;
  storage::Page<storage::BacklogRef> page;
  const MessageKey from = subscription->parked.value_or(subscription->backlog_cursor);
  if (absl::Status status = store_->ScanBacklog(shard_, subscription->state.id, from, limit, &page);
      !status.ok()) {
    read_error_ = status;
    return false;
  }
  const uint64_t retention_ms = subscription->state.settings.retention_ms;
  for (const storage::BacklogRef& item : page.items) {
    const MessageKey key = KeyOf(item);
    const bool too_old = retention_ms > 0 && now.wall_ms > item.key.due_ms + retention_ms;
    // What is ready is older: it goes first.
    const bool too_many = TooMany(*subscription) && subscription->ready.head == kNoEntry;
    if (!too_old && !too_many) return false;
    if (letters_left_ == 0) return true;
    if (latches_->Held(key.id) || Ending(key.id)) return false;  // it is looked at again
    if (table_.Find(key.id, subscription) == kNoEntry) {
      const EntryIndex index = TakeListed(item, subscription);
      if (!read_error_.ok()) return false;
      if (index != kNoEntry && !GiveUp(now, index)) {
        Forget(index);
        return false;
      }
      subscription->listed.Taken(item.key);
      if (too_many) ++subscription->given_up;
    }
    // Nobody has to walk over it again.
    if (subscription->behind) subscription->backlog_cursor = After(item.key);
  }
  // What was miscounted must not add up.
  if (subscription->given_up >= kRecountAfter &&
      subscription->given_up >= subscription->listed.count()) {
    subscription->listed.Forget();
  }
  return page.items.size() == limit.entries;
}

// ---- New subscriptions
// ----------------------------------------------------------------------------------------------

void Dispatcher::FillNew(bool* more) {
  if (filling_.empty() || !read_error_.ok()) return;
  Subscription* const subscription = filling_.front();
  const uint64_t until_ms = subscription->state.fill_until_ms + 1;
  std::optional<KeyRange> range;
  storage::Page<storage::MessageHeadRef> page;
  absl::Status status = NextMinute(store_, shard_, subscription->topic->id,
                                   subscription->fill_cursor, until_ms, &range);
  if (status.ok() && range.has_value()) {
    status = store_->ScanHeads(shard_, subscription->topic->id, range->from, range->until, kPage,
                               kScanMax, &page);
    if (!page.next.has_value() && range->until.due_ms < until_ms) page.next = range->until;
  }
  if (!status.ok()) {
    read_error_ = status;
    return;
  }
  for (const storage::MessageHeadRef& item : page.items) {
    subscription->fill_cursor = item.key;
    // It is looked at again when that is over.
    if (latches_->Held(item.key.id) || Ending(item.key.id)) return;
    if (table_.Find(item.key.id, subscription) != kNoEntry) continue;
    if (!ReadRows(item.key)) return;
    // Known already: a fill that a crash interrupted begins anew.
    if (RowOf(subscription->state.id) != nullptr || InBacklog(item.key, *subscription)) continue;
    SpillNew({.key = item.key, .topic = subscription->topic->id, .bytes = item.bytes, .flags = 0},
             subscription, nullptr);
  }
  if (page.next.has_value()) {
    subscription->fill_cursor = *page.next;
    *more = true;
    return;
  }
  filling_.pop_front();
  subscription->state.fill_until_ms = 0;
  Save(*subscription);
  // What was listed is behind by now, or on its way.
  FallBehind(subscription, MessageKey{});
  WantReadBack(subscription);
}

}  // namespace duetime::delivery
