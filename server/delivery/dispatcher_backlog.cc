// SPDX-License-Identifier: Apache-2.0
//
// The part of Dispatcher that keeps what does not fit in memory on disk, in the order in which each
// subscription is to be given it, and reads it back.
#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/delivery/backlog_place.h"
#include "server/delivery/dispatcher.h"

namespace duetime::delivery {

using storage::BacklogEntry;
using storage::BacklogRef;
using storage::Durability;
using storage::MessageKey;
using storage::MessageRef;
using storage::Progress;
using storage::Record;
using storage::RecordType;

namespace {

// Entries in one page of the backlog: few against what memory holds, many against the cost of the
// claim that each page needs.
constexpr size_t kReadBackPage = 1000;

// Entries that one SpillOld looks at.
constexpr size_t kSpillsPerStep = 2000;

}  // namespace

void Dispatcher::FallBehind(Subscription* subscription, const MessageKey& place) {
  if (subscription->behind) {
    subscription->backlog_cursor = std::min(subscription->backlog_cursor, place);
    return;
  }
  subscription->behind = true;
  ++behind_;
  subscription->backlog_cursor = std::min(subscription->parked.value_or(place), place);
  subscription->parked.reset();
}

void Dispatcher::SpillNew(const MessageRef& message, Subscription* subscription,
                          const Progress* progress) {
  const bool later = progress != nullptr && progress->retry_ms > message.key.due_ms;
  const MessageKey place = {.due_ms = later ? progress->retry_ms : message.key.due_ms,
                            .id = message.key.id};
  FallBehind(subscription, place);
  if (progress != nullptr) subscription->forgot_delivered = true;
  if (later) {
    Progress listed = *progress;
    listed.listed = true;
    AddProgress(message.key, *subscription, listed);
  }
  scheduler_->safe_mark()->Hold(message.key.due_ms);
  AddSpillRecord({.place = place,
                  .due_ms = message.key.due_ms,
                  .subscription = subscription,
                  .index = kNoEntry,
                  .forget = false},
                 {.attempts = progress != nullptr ? progress->attempts : 0,
                  .bytes = message.bytes,
                  .maybe_delivered = scheduler_->MaybeDelivered(message.key),
                  .due_ms = later ? message.key.due_ms : 0});
}

void Dispatcher::SpillEntry(EntryIndex index, bool forget) {
  const DueEntry& entry = table_[index];
  SpillAt(index, entry.spilled ? entry.listed_ms : entry.due_ms, forget);
}

void Dispatcher::SpillAt(EntryIndex index, uint64_t place_ms, bool forget) {
  DueEntry& entry = table_[index];
  if (entry.spilled && entry.listed_ms != place_ms) AddUnspill(entry.place(), *entry.subscription);
  entry.listed_ms = place_ms;
  entry.spilled = true;
  BacklogEntry record{.attempts = entry.attempts,
                      .bytes = entry.bytes,
                      .maybe_delivered = entry.maybe_delivered,
                      .due_ms = place_ms != entry.due_ms ? entry.due_ms : 0};
  if (forget) {
    ReleaseOrder(index);
    entry.state = EntryState::kForgetting;
    entry.stream = StreamId{};
    ++entry.subscription->forgets_in_flight;
    if (entry.attempts > 0) entry.subscription->forgot_delivered = true;
    FallBehind(entry.subscription, entry.place());
  } else {
    // It stays in memory and may be delivered from there, which no record will tell.
    record.maybe_delivered = true;
  }
  AddSpillRecord({.place = entry.place(),
                  .due_ms = entry.due_ms,
                  .subscription = entry.subscription,
                  .index = index,
                  .forget = forget},
                 record);
}

void Dispatcher::AddSpillRecord(const Spill& spill, BacklogEntry entry) {
  Record record;
  record.type = RecordType::kSpill;
  record.shard = shard_;
  record.subscription = spill.subscription->state.id;
  record.key = spill.place;
  record.backlog = entry;
  // Buffered: if it is lost, so is every W_safe that counts on it, and recovery finds the message
  // itself.
  outbox_->Add(std::move(record), Durability::kBuffered);
  ++spill.subscription->spills_in_flight;
  if (spill.subscription->bounded()) spill.subscription->listed.Arriving(spill.place.id);
  ++stats_->spilled;
  if (spills_ == nullptr || spill_batch_ != outbox_->open_sequence()) {
    // One continuation for all the spills of a batch.
    spills_ = std::make_shared<std::vector<Spill>>();
    spill_batch_ = outbox_->open_sequence();
    outbox_->Then([this, spills = spills_](base::Now, bool accepted) {
      if (!accepted) return;
      for (const Spill& done : *spills) OnSpilled(done);
    });
  }
  spills_->push_back(spill);
}

void Dispatcher::OnSpilled(const Spill& spill) {
  Subscription* const subscription = spill.subscription;
  --subscription->spills_in_flight;
  if (spill.forget) --subscription->forgets_in_flight;
  scheduler_->NoteProgress();
  if (spill.index == kNoEntry) {
    subscription->listed.Arrived(spill.place, /*only_there=*/true);
    scheduler_->safe_mark()->Release(spill.due_ms);
    FallBehind(subscription, spill.place);
    WantReadBack(subscription);
    return;
  }
  WantReadBack(subscription);
  // The entry may have ended meanwhile, and its place may be another's.
  DueEntry& entry = table_[spill.index];
  const bool still = entry.state != EntryState::kFree && entry.place() == spill.place &&
                     entry.subscription == subscription;
  subscription->listed.Arrived(spill.place, still && entry.state == EntryState::kForgetting);
  if (!still) return;
  if (entry.held) {
    scheduler_->safe_mark()->Release(entry.due_ms);
    entry.held = false;
  }
  // Not by an earlier listing: what was noted of it since is not on disk yet, and whoever ends the
  // message would not know of it.
  if (spill.forget && entry.state == EntryState::kForgetting) {
    FallBehind(subscription, spill.place);
    Forget(spill.index);
  }
}

void Dispatcher::AddUnspill(const MessageKey& place, const Subscription& subscription) {
  Record record;
  record.type = RecordType::kUnspill;
  record.shard = shard_;
  record.subscription = subscription.state.id;
  record.key = place;
  outbox_->Add(std::move(record), Durability::kBuffered);
}

void Dispatcher::SpillOld(base::Now now, bool* more) {
  ReleaseDeleted(now, more);
  FillNew(more);
  if (now.mono_ms >= next_spill_mono_ms_) {
    next_spill_mono_ms_ = now.mono_ms + limits_.safe_period_ms;
    // A full slice: more may have to go.
    if (GiveUpOld(now)) next_spill_mono_ms_ = now.mono_ms;
    if (now.wall_ms > limits_.spill_age_ms) {
      const std::vector<uint32_t> cookies =
          scheduler_->safe_mark()->TakeCookies(now.wall_ms - limits_.spill_age_ms);
      old_.insert(old_.end(), cookies.begin(), cookies.end());
    }
  }
  for (size_t i = 0; i < kSpillsPerStep && !old_.empty(); ++i) {
    const EntryIndex index = old_.front();
    old_.pop_front();
    DueEntry& entry = table_[index];
    // A cookie may be stale: its place may be free, or another's, who then is looked at too early
    // and no harm is done.
    if (entry.state == EntryState::kFree || entry.state == EntryState::kEnding ||
        entry.state == EntryState::kForgetting || entry.spilled || !entry.held) {
      continue;
    }
    if (entry.state == EntryState::kReady && !entry.subscription->served()) {
      ForgetReady(entry.subscription);
    } else {
      SpillEntry(index, /*forget=*/false);
    }
  }
  if (!old_.empty()) *more = true;
}

void Dispatcher::ForgetReady(Subscription* subscription) {
  // Nobody is there to take them from memory, so they need not be there. All of them, or what stays
  // would be handed out before what is older.
  while (subscription->ready.head != kNoEntry) {
    const EntryIndex index = subscription->ready.head;
    TakeOut(index);
    SpillEntry(index, /*forget=*/true);
  }
}

// ---- Reading back
// ---------------------------------------------------------------------------------------------------

bool Dispatcher::MayReadBack(const Subscription& subscription) const {
  return subscription.behind && !subscription.reading && !subscription.willing.empty() &&
         subscription.forgets_in_flight == 0 && !subscription.paused() &&
         !subscription.state.deleting;
}

void Dispatcher::WantReadBack(Subscription* subscription) {
  if (!MayReadBack(*subscription) || subscription->read_queued ||
      subscription->ready.count >= limits_.frame_messages_max) {
    return;
  }
  // Memory full of others leaves a small share, as for new messages.
  if (table_.size() >= limits_.due_max && subscription->entries >= limits_.due_idle_max) return;
  // Those that wait for their ordering key take their share, too.
  if (subscription->holds.waiting() >= limits_.due_max) return;
  subscription->read_queued = true;
  read_queue_.push_back(subscription);
}

size_t Dispatcher::RoomToReadBack() const {
  const size_t used = table_.size() + reading_;
  return used >= 2 * limits_.due_max ? 0 : 2 * limits_.due_max - used;
}

absl::Status Dispatcher::ReadRecoveredClaim(Subscription* subscription) {
  if (subscription->claim_read) return absl::OkStatus();
  const auto claim = store_->BacklogClaim(shard_, subscription->state.id);
  if (!claim.ok()) return claim.status();
  subscription->claim_read = true;
  subscription->recovered_claim = subscription->claim = *claim;
  return absl::OkStatus();
}

bool Dispatcher::ClaimedBefore(const Subscription& subscription, const MessageKey& place) const {
  return place.id.epoch() < scheduler_->epoch() && subscription.recovered_claim.has_value() &&
         place <= *subscription.recovered_claim;
}

void Dispatcher::Park(base::Now now, Subscription* subscription, const MessageKey& place) {
  subscription->behind = false;
  --behind_;
  subscription->parked = place;
  WakeAt(now.mono_ms + place.due_ms - now.wall_ms, subscription);
}

absl::Status Dispatcher::ReadBack(base::Now now, Subscription* subscription) {
  const storage::ScanLimit limit{.entries = std::min(kReadBackPage, RoomToReadBack())};
  DT_CHECK_GT(limit.entries, 0u);
  if (!MayReadBack(*subscription)) return absl::OkStatus();
  if (absl::Status status = ReadRecoveredClaim(subscription); !status.ok()) return status;
  storage::Page<BacklogRef> page;
  if (absl::Status status = store_->ScanBacklog(shard_, subscription->state.id,
                                                subscription->backlog_cursor, limit, &page);
      !status.ok()) {
    return status;
  }
  const bool all = page.items.empty();
  const MessageKey first = all ? MessageKey{} : page.items.front().key;
  // What waits for its next attempt; or the clock was ahead in an earlier run.
  std::erase_if(page.items,
                [&now](const BacklogRef& item) { return item.key.due_ms > now.wall_ms; });
  if (page.items.empty()) {
    // Caught up, unless more is on its way to disk, which will bring us back.
    if (subscription->spills_in_flight > 0 || subscription->state.fill_until_ms > 0) {
      return absl::OkStatus();
    }
    if (!all) {
      Park(now, subscription, first);
      return absl::OkStatus();
    }
    subscription->behind = false;
    subscription->forgot_delivered = false;
    subscription->listed.Clear();
    --behind_;
    return absl::OkStatus();
  }
  const MessageKey last = page.items.back().key;
  subscription->backlog_cursor = After(last);
  std::erase_if(page.items, [this, subscription](const BacklogRef& item) {
    const EntryIndex index = table_.Find(item.key.id, subscription);
    const bool held = latches_->Held(item.key.id);
    if (held) UnlistEcho(item, subscription);
    return held || (index != kNoEntry && table_[index].key() == KeyOf(item));
  });
  if (page.items.empty()) {
    WantReadBack(subscription);
    return absl::OkStatus();
  }
  subscription->reading = true;
  reading_ += page.items.size();
  // Claimed before it is handed out, so that a cancel after a crash knows what may have been
  // delivered. What lies at the time of its next attempt was delivered, and says so itself: a claim
  // up to there would be one of messages that are not due.
  for (const BacklogRef& item : page.items) {
    if (item.entry.due_ms != 0) continue;
    subscription->claim = std::max(subscription->claim.value_or(item.key), item.key);
  }
  Record record;
  record.type = RecordType::kBacklogClaim;
  record.shard = shard_;
  record.subscription = subscription->state.id;
  record.key = subscription->claim.value_or(MessageKey{});
  outbox_->Add(std::move(record), Durability::kSynced);
  outbox_->Then([this, subscription, items = std::move(page.items)](base::Now then, bool accepted) {
    if (accepted) OnReadBack(then, subscription, items);
  });
  return absl::OkStatus();
}

void Dispatcher::OnReadBack(base::Now now, Subscription* subscription,
                            const std::vector<BacklogRef>& page) {
  subscription->reading = false;
  reading_ -= page.size();
  // Its backlog is being given up.
  if (subscription->state.deleting) return;
  if (subscription->backlog_cursor <= page.back().key) {
    // Something older went to disk while the claim was on its way (the last subscriber left, and
    // memory was given up): it comes first, so this page is read again after it.
    FallBehind(subscription, page.front().key);
    WantReadBack(subscription);
    return;
  }
  for (const BacklogRef& item : page) {
    const EntryIndex found = table_.Find(item.key.id, subscription);
    if (latches_->Held(item.key.id)) {
      UnlistEcho(item, subscription);
    } else if (found == kNoEntry) {
      TakeUp(now, subscription, item);
    } else if (table_[found].key() != KeyOf(item)) {
      ReadBackAgain(found, item);
    }
  }
  WantReadBack(subscription);
}

void Dispatcher::TakeUp(base::Now now, Subscription* subscription, const BacklogRef& item) {
  const MessageKey key = KeyOf(item);
  const bool uncertain = item.entry.maybe_delivered || ClaimedBefore(*subscription, item.key);
  const Progress* row = nullptr;
  if (uncertain || subscription->topic->several) {
    if (!ReadRows(key)) return;
    row = RowOf(subscription->state.id);
  }
  subscription->listed.Taken(item.key);
  if (row != nullptr && row->state == Progress::State::kSettled) {
    AddUnspill(item.key, *subscription);
    return;
  }
  ++stats_->read_back;
  const EntryIndex index = AddEntry(key, item.entry.bytes, subscription);
  DueEntry& entry = table_[index];
  entry.attempts = item.entry.attempts;
  entry.maybe_delivered = uncertain;
  entry.spilled = true;
  entry.listed_ms = item.key.due_ms;
  entry.progress = item.entry.attempts > 0;
  if (row != nullptr) {
    entry.attempts = std::max(entry.attempts, row->attempts);
    entry.progress = true;
    if (row->retry_ms > now.wall_ms) return ResumeDelay(now, index, *row);
  }
  MakeReady(index);
}

void Dispatcher::UnlistEcho(const BacklogRef& item, Subscription* subscription) {
  std::optional<std::string> record;
  if (!ReadRecord(KeyOf(item), &record) || record.has_value()) return;
  AddUnspill(item.key, *subscription);
  subscription->listed.Taken(item.key);
}

void Dispatcher::ReadBackAgain(EntryIndex index, const BacklogRef& item) {
  DueEntry& entry = table_[index];
  if (entry.state == EntryState::kForgetting) {
    FallBehind(entry.subscription, item.key);  // and it is read again when that entry is gone
    return;
  }
  entry.subscription->listed.Taken(item.key);
  // One of the two is the echo of a time before it was moved. The store knows which.
  if (!entry.seen && entry.state == EntryState::kReady) {
    std::optional<std::string> record;
    if (!ReadRecord(KeyOf(item), &record)) return;
    if (record.has_value()) {
      if (entry.held) scheduler_->safe_mark()->Release(entry.due_ms);
      if (entry.spilled) AddUnspill(entry.place(), *entry.subscription);
      entry.due_ms = KeyOf(item).due_ms;
      entry.listed_ms = item.key.due_ms;
      entry.bytes = item.entry.bytes;
      entry.attempts = item.entry.attempts;
      entry.maybe_delivered =
          item.entry.maybe_delivered || ClaimedBefore(*entry.subscription, item.key);
      entry.spilled = true;
      entry.held = false;
      return;
    }
  }
  AddUnspill(item.key, *entry.subscription);
}

bool Dispatcher::InBacklog(const MessageKey& key, const Subscription& subscription) {
  const auto entry = store_->GetBacklog(shard_, subscription.state.id, key);
  if (!entry.ok()) read_error_ = entry.status();
  return !entry.ok() || entry->has_value();
}

}  // namespace duetime::delivery
