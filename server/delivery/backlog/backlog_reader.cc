// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/backlog/backlog_reader.h"

#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/delivery/backlog/backlog.h"
#include "server/delivery/backlog/backlog_place.h"
#include "server/delivery/delivery_records.h"
#include "server/delivery/delivery_states.h"
#include "server/delivery/endings/retries.h"
#include "server/delivery/memory_share.h"
#include "server/delivery/pace/turns.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/subscriptions/subscription_fill.h"

namespace duetime::delivery {

using storage::BacklogRef;
using storage::MessageKey;
using storage::Progress;

namespace {

// Entries in one page: a small part of the memory, and enough to spread the cost of a claim.
constexpr size_t kReadBackPageEntries = 1000;
// Pages that one step reads.
constexpr size_t kPagesPerStep = 4;

}  // namespace

BacklogReader::BacklogReader(const Core& core, Retries* retries, SubscriptionFill* fill)
    : core_(core), retries_(retries), fill_(fill) {}

absl::Status BacklogReader::Step(base::Now now) {
  core_.turns.ReadBackIfRoom();
  for (size_t i = 0; i < kPagesPerStep && core_.turns.any_to_read_back(); ++i) {
    absl::Status status = ReadPage(now, core_.turns.NextToReadBack());
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status BacklogReader::ReadPage(base::Now now, Subscription* subscription) {
  DT_CHECK_GT(core_.memory.RoomToReadBack(), 0u);
  if (!Turns::CanReadBack(*subscription)) return absl::OkStatus();
  if (!core_.memory.FitsReadBack(*subscription)) {
    // Others that waited for the same room have used it.
    core_.turns.ReadBack(subscription);
    return absl::OkStatus();
  }
  if (subscription->ReadsAgain()) {
    // HandOut asks again when no message is ready.
    if (subscription->ready.count > 0) return absl::OkStatus();
    core_.backlog.FallBehindForKey(subscription);
  }
  if (absl::Status status = core_.backlog.ReadClaim(subscription); !status.ok()) return status;
  const storage::ScanLimit limit{.entries =
                                     std::min(kReadBackPageEntries, core_.memory.RoomToReadBack())};
  auto page =
      core_.reader.BacklogPage(subscription->state.id, subscription->backlog.cursor(), limit);
  if (!page.ok()) return page.status();
  if (page->damaged) fill_->OnDamage(now, subscription);
  if (page->items.empty() && page->next.has_value()) {
    subscription->backlog.Advance(*page->next);
    core_.turns.ReadBack(subscription);
    return absl::OkStatus();
  }
  // A message at a place later than now waits for its next attempt, or was listed by an earlier run
  // whose clock was ahead.
  const auto later =
      std::find_if(page->items.begin(), page->items.end(),
                   [&now](const BacklogRef& item) { return item.key.due_ms > now.wall_ms; });
  if (later == page->items.begin()) {
    OnNothingDue(now, subscription, page->items);
    return absl::OkStatus();
  }
  page->items.erase(later, page->items.end());
  for (const BacklogRef& item : page->items) subscription->backlog.CountRead(item.key);
  subscription->backlog.Advance(After(page->items.back().key));
  std::erase_if(page->items, [this, subscription](const BacklogRef& item) {
    const bool locked = core_.key_locks.Locked(item.key.id);
    if (locked) UnlistIfStale(item, subscription);
    return locked || core_.table.FindAt(KeyOf(item), subscription) != kNoEntry;
  });
  if (page->items.empty()) {
    core_.turns.ReadBack(subscription);
  } else {
    ClaimPage(subscription, std::move(page->items));
  }
  return absl::OkStatus();
}

void BacklogReader::OnNothingDue(base::Now now, Subscription* subscription,
                                 const std::vector<BacklogRef>& later) {
  // The commit of a listing, or the end of the fill, queues the subscription again.
  if (subscription->spills_in_flight > 0 || subscription->filling) return;
  subscription->order.EndRead();
  const bool rests = subscription->order.rests() > 0;
  if (!rests) subscription->backlog.ClearRest();
  if (!later.empty()) {
    core_.backlog.Park(now, subscription, later.front().key);
  } else if (rests) {
    core_.backlog.ClearButRests(subscription);
  } else {
    core_.backlog.Clear(subscription);
    subscription->forgot_delivered = false;
  }
  // A rest may have waited for the end of the backlog.
  core_.turns.ReadBack(subscription);
}

void BacklogReader::ClaimPage(Subscription* subscription, std::vector<BacklogRef> page) {
  DT_CHECK(!page.empty());
  DT_CHECK(!subscription->reading);
  DT_CHECK(subscription->claim_read);
  subscription->reading = true;
  core_.memory.Reserve(page.size());
  // The claim leaves out a message at the time of its next attempt. Its record shows the delivery,
  // and a claim up to that time would cover messages that are not due.
  for (const BacklogRef& item : page) {
    if (item.entry.due_ms != 0) continue;
    subscription->claim = std::max(subscription->claim.value_or(item.key), item.key);
  }
  core_.records.ClaimBacklog(subscription->claim.value_or(MessageKey{}), subscription->state.id);
  core_.writes.Then([this, subscription, page = std::move(page)](base::Now then, bool accepted) {
    if (accepted) OnClaimed(then, subscription, page);
  });
}

void BacklogReader::OnClaimed(base::Now now, Subscription* subscription,
                              const std::vector<BacklogRef>& page) {
  DT_CHECK(!page.empty());
  DT_CHECK(subscription->reading);
  subscription->reading = false;
  core_.memory.Unreserve(page.size());
  // SubscriptionRelease drops the backlog.
  if (subscription->state.deleting) return;
  if (subscription->backlog.cursor() <= page.back().key) {
    // An older message went to disk meanwhile (the last stream left, and the ready entries moved to
    // disk). It comes first, so this page is read again after it.
    core_.backlog.FallBehind(subscription, page.front().key);
    return core_.turns.ReadBack(subscription);
  }
  for (const BacklogRef& item : page) {
    const EntryIndex found = core_.table.Find(item.key.id, subscription);
    if (core_.key_locks.Locked(item.key.id)) {
      UnlistIfStale(item, subscription);
    } else if (found == kNoEntry) {
      TakeUp(now, subscription, item);
    } else if (core_.table[found].key() != KeyOf(item)) {
      ReadAgain(now, found, item);
    }
  }
  core_.turns.ReadBack(subscription);
}

void BacklogReader::TakeUp(base::Now now, Subscription* subscription, const BacklogRef& item) {
  const bool uncertain =
      item.entry.maybe_delivered || core_.backlog.ClaimedBefore(*subscription, item.key);
  ProgressRows rows;
  // The row of an earlier attempt has the time of the next one. It may lie after now again, because
  // a restart may find the clock set back.
  if (uncertain || subscription->topic->several || item.entry.attempts > 0) {
    auto read = core_.reader.Progress(KeyOf(item));
    if (!read.ok()) return;
    rows = *std::move(read);
  }
  subscription->listed.Taken(item.key);
  if (rows.Settled(subscription->state.id)) {
    return core_.backlog.Unlist(item.key, *subscription);
  }
  ++core_.stats.read_back;
  const Progress* const row = rows.Find(subscription->state.id);
  const EntryIndex index = AddEntry(item, subscription, row, uncertain);
  if (row != nullptr && row->retry_ms > now.wall_ms) return retries_->ResumeDelay(now, index, *row);
  core_.states.MakeReady(index);
}

EntryIndex BacklogReader::AddEntry(const BacklogRef& item, Subscription* subscription,
                                   const Progress* row, bool uncertain) {
  DT_CHECK(row == nullptr || row->state != Progress::State::kSettled);
  const EntryIndex index = core_.table.Insert(KeyOf(item), subscription);
  PendingDelivery& entry = core_.table[index];
  entry.bytes = item.entry.bytes;
  entry.attempts = std::max(item.entry.attempts, row != nullptr ? row->attempts : 0);
  // An attempt that the listing counts and the row does not was in flight when the process ended.
  entry.half_failures = row != nullptr ? row->half_failures() : 0;
  entry.suspect = Retries::IsSuspect(row);
  entry.maybe_delivered = uncertain;
  entry.spilled = true;
  entry.listed_ms = item.key.due_ms;
  entry.progress = row != nullptr || item.entry.attempts > 0;
  return index;
}

EntryIndex BacklogReader::TakeListed(const BacklogRef& item, Subscription* subscription) {
  const auto record = core_.reader.Record(KeyOf(item));
  const auto rows = core_.reader.Progress(KeyOf(item));
  if (!record.ok() || !rows.ok()) return kNoEntry;
  if (!record->has_value() || rows->Settled(subscription->state.id)) {
    core_.backlog.Unlist(item.key, *subscription);
    return kNoEntry;
  }
  if (!core_.backlog.ReadClaim(subscription).ok()) return kNoEntry;
  const bool uncertain =
      item.entry.maybe_delivered || core_.backlog.ClaimedBefore(*subscription, item.key);
  const EntryIndex index =
      AddEntry(item, subscription, rows->Find(subscription->state.id), uncertain);
  core_.table.Learn(index, **record);
  return index;
}

void BacklogReader::UnlistIfStale(const BacklogRef& item, Subscription* subscription) {
  const auto record = core_.reader.Record(KeyOf(item));
  if (!record.ok() || record->has_value()) return;
  core_.backlog.Unlist(item.key, *subscription);
  subscription->listed.Taken(item.key);
}

void BacklogReader::ReadAgain(base::Now now, EntryIndex index, const BacklogRef& item) {
  const PendingDelivery& entry = core_.table[index];
  Subscription* const subscription = entry.subscription;
  DT_CHECK(entry.key() != KeyOf(item));
  if (entry.state == EntryState::kForgetting) {
    // The listing is read again when the forgetting entry is gone.
    return core_.backlog.FallBehind(subscription, item.key);
  }
  // The message was moved, so one of its two places is stale. The store shows which one.
  if (!entry.seen && entry.state == EntryState::kReady) {
    const auto record = core_.reader.Record(KeyOf(item));
    if (!record.ok()) return;
    if (record->has_value()) {
      core_.states.TakeOut(index);
      core_.backlog.Unlist(index);
      core_.states.Remove(index);
      return TakeUp(now, subscription, item);
    }
  }
  subscription->listed.Taken(item.key);
  core_.backlog.Unlist(item.key, *subscription);
}

}  // namespace duetime::delivery
