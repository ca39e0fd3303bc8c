// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/endings/retention.h"

#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/delivery/backlog/backlog_place.h"
#include "server/delivery/backlog/backlog_reader.h"
#include "server/delivery/delivery_states.h"
#include "server/delivery/endings/dead_letters.h"
#include "server/delivery/endings/message_ends.h"
#include "server/delivery/memory_share.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/subscriptions/subscription_fill.h"
#include "server/delivery/subscriptions/subscriptions.h"

namespace duetime::delivery {

using storage::BacklogRef;
using storage::MessageKey;

namespace {

// The messages that one step drops, and counts, for one subscription: about a millisecond.
constexpr storage::ScanLimit kRetainedPage{.entries = 200, .bytes = 1 << 20};
constexpr storage::ScanLimit kCountedPage{.entries = 2000, .bytes = 1 << 20};
// The subscriptions that one step visits, with at most one page each. The others are visited a
// period later.
constexpr size_t kCheckedPerStep = 100;
// The subscriptions that may drop a full page in one step.
constexpr size_t kFullPagesPerStep = 4;
// A backlog is counted again after this many drops, but not before there are as many drops as
// listed messages. So the count costs about one read for each dropped message.
constexpr size_t kRecountAfter = 1000;

}  // namespace

Retention::Retention(const Core& core, MessageEnds* ends, DeadLetters* dead_letters,
                     BacklogReader* backlog_reader, SubscriptionFill* fill)
    : core_(core),
      shards_(core.store.shard_count()),
      ends_(ends),
      dead_letters_(dead_letters),
      backlog_reader_(backlog_reader),
      fill_(fill) {
  DT_CHECK_GT(shards_, 0u);
}

bool Retention::TooOld(base::Now now, const PendingDelivery& entry) {
  return protocol::TooOld(entry.subscription->state.settings, entry.due_ms, now.wall_ms);
}

bool Retention::TooMany(const Subscription& subscription) const {
  return protocol::TooMany(subscription.state.settings,
                           subscription.ready.count + subscription.listed.count(), shards_);
}

bool Retention::GiveUp(base::Now now, EntryIndex index) {
  DT_CHECK(core_.table[index].seen);
  DT_CHECK(core_.table[index].state != EntryState::kEnding);
  Subscription* const subscription = core_.table[index].subscription;
  DT_CHECK(subscription->retains());
  if (subscription->state.settings.retention_policy() ==
      protocol::SubscriptionSettings::DEAD_LETTER) {
    return dead_letters_->Make(now, index, storage::DeadLetterReason::kRetention, "") ==
           DeadLetters::Made::kYes;
  }
  ++subscription->dropped;
  ends_->Drop(now, index);
  return true;
}

bool Retention::Step(base::Now now) {
  std::deque<Subscription*>& retaining = core_.subscriptions.retaining();
  bool counted = false;
  size_t full = 0;
  for (size_t i = std::min(retaining.size(), kCheckedPerStep); i > 0 && full < kFullPagesPerStep;
       --i) {
    Subscription* const subscription = retaining.front();
    retaining.pop_front();
    retaining.push_back(subscription);
    DT_CHECK(!subscription->state.deleting);
    if (subscription->topic->settings->paused_by_restore()) continue;
    if (!counted && subscription->bounded() && !subscription->listed.known()) {
      counted = CountListed(subscription);
    }
    if (GiveUpReady(now, subscription) || GiveUpListed(now, subscription)) ++full;
  }
  return counted || full > 0;
}

uint64_t Retention::NextTooOld() const {
  uint64_t next_ms = UINT64_MAX;
  for (const Subscription* const subscription : core_.subscriptions.retaining()) {
    const protocol::SubscriptionSettings& settings = subscription->state.settings;
    if (!protocol::BoundsAge(settings)) continue;
    uint64_t oldest_ms = UINT64_MAX;
    if (const EntryIndex first = subscription->ready.head; first != kNoEntry) {
      oldest_ms = core_.table[first].due_ms;
    }
    if (subscription->backlog.any()) {
      oldest_ms = std::min(oldest_ms, subscription->backlog.first().due_ms);
    }
    if (oldest_ms == UINT64_MAX) continue;
    next_ms = std::min(next_ms, oldest_ms + settings.retention_ms() + 1);
  }
  return next_ms;
}

bool Retention::CountListed(Subscription* subscription) {
  BacklogCount& listed = subscription->listed;
  DT_CHECK(!listed.known());
  // While messages move between memory and disk, a count could take one twice, or miss one.
  if (subscription->filling) return false;
  if (listed.cursor() == MessageKey{} &&
      (subscription->reading || subscription->spills_in_flight > listed.arriving())) {
    return false;
  }
  subscription->given_up = 0;
  if (!subscription->backlog.any()) {
    listed.Clear();
    return false;
  }
  const MessageKey from = std::max(listed.cursor(), subscription->backlog.first());
  const auto page = core_.reader.BacklogPage(subscription->state.id, from, kCountedPage);
  if (!page.ok()) return false;
  if (page->items.empty()) {
    if (page->next.has_value()) {
      listed.Walked(0, *page->next);
      return true;
    }
    listed.Finish();
    return false;
  }
  // A listing that is not committed yet is counted at its commit. A listing that a command is
  // removing is not counted.
  const auto only_there = [this, subscription](const BacklogRef& item) {
    const EntryIndex index = core_.table.Find(item.key.id, subscription);
    return (index == kNoEntry || core_.table[index].place() != item.key) &&
           !subscription->listed.IsArriving(item.key.id) && !core_.key_locks.Locked(item.key.id);
  };
  const auto found = std::count_if(page->items.begin(), page->items.end(), only_there);
  listed.Walked(static_cast<size_t>(found), After(page->items.back().key));
  return true;
}

bool Retention::GiveUpReady(base::Now now, Subscription* subscription) {
  for (size_t i = 0; i < kRetainedPage.entries && dead_letters_->has_budget(); ++i) {
    const EntryIndex index = subscription->ready.head;
    if (index == kNoEntry) return false;
    const PendingDelivery& entry = core_.table[index];
    DT_CHECK(entry.state == EntryState::kReady);
    if (!TooOld(now, entry) && !TooMany(*subscription)) return false;
    if (core_.key_locks.Locked(entry.id) || ends_->MessageEnding(entry.key())) return false;
    const auto record = core_.reader.Record(entry.key());
    if (!record.ok() && !storage::IsDamage(record.status())) return false;
    // The record of a damaged message stays, and the subscription forgets it.
    if (!record.ok() || !record->has_value()) {
      ends_->DropStale(index);
      continue;
    }
    core_.table.Learn(index, **record);
    if (!GiveUp(now, index)) return false;
  }
  return true;
}

bool Retention::GiveUpListed(base::Now now, Subscription* subscription) {
  // A walk that stops early begins again at the front, at the next visit.
  const MessageKey cursor = std::exchange(subscription->retention_cursor, MessageKey{});
  const storage::ScanLimit limit{
      .entries = std::min(kRetainedPage.entries, core_.memory.RoomToReadBack()),
      .bytes = kRetainedPage.bytes};
  if (!subscription->backlog.any() || subscription->reading || limit.entries == 0) return false;
  const protocol::SubscriptionSettings& settings = subscription->state.settings;
  // If only the number is bounded and it is not exceeded, no page has to be read.
  if (!protocol::BoundsAge(settings) && !TooMany(*subscription)) return false;
  // While the subscription is behind, the walk itself moves the backlog's first place, and a
  // message that was listed since the last visit may lie before the cursor. The rest of an ordering
  // key before that place stays there.
  const MessageKey first = subscription->backlog.first();
  const bool moves = subscription->backlog.behind() && first == subscription->backlog.cursor();
  const MessageKey from = moves ? first : std::max(cursor, first);
  const auto page = core_.reader.BacklogPage(subscription->state.id, from, limit);
  if (!page.ok()) return false;
  if (page->damaged) fill_->OnDamage(now, subscription);
  for (const BacklogRef& item : page->items) {
    const bool too_old = protocol::TooOld(settings, item.key.due_ms, now.wall_ms);
    // Ready messages are older, so they are dropped first.
    const bool too_many = TooMany(*subscription) && subscription->ready.head == kNoEntry;
    if (!too_old && !too_many) return false;
    if (!dead_letters_->has_budget()) {
      subscription->retention_cursor = item.key;
      return true;
    }
    if (core_.key_locks.Locked(item.key.id) || ends_->AnyEnding(item.key.id)) return false;
    // A listed message that is also in memory stays.
    if (core_.table.Find(item.key.id, subscription) == kNoEntry) {
      if (!GiveUpOneListed(now, item, subscription)) return false;
      if (too_many) ++subscription->given_up;
    }
    if (moves) subscription->backlog.Advance(After(item.key));
  }
  RecountIfMany(subscription);
  if (page->items.size() < limit.entries) return false;
  // Without the cursor, a subscription that is parked would get the same page again.
  subscription->retention_cursor = After(page->items.back().key);
  return true;
}

bool Retention::GiveUpOneListed(base::Now now, const BacklogRef& item, Subscription* subscription) {
  const EntryIndex index = backlog_reader_->TakeListed(item, subscription);
  if (!core_.reader.ok()) return false;
  if (index != kNoEntry && !GiveUp(now, index)) {
    core_.states.Remove(index);
    return false;
  }
  subscription->listed.Taken(item.key);
  return true;
}

void Retention::RecountIfMany(Subscription* subscription) {
  if (subscription->given_up < kRecountAfter) return;
  if (subscription->given_up >= subscription->listed.count()) subscription->listed.Forget();
}

}  // namespace duetime::delivery
