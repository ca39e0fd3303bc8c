// SPDX-License-Identifier: Apache-2.0
//
// The part of Dispatcher that keeps what does not fit in memory on disk, in due order per topic,
// and reads it back.
#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/delivery/dispatcher.h"

namespace duetime::delivery {

using storage::BacklogEntry;
using storage::BacklogRef;
using storage::Durability;
using storage::MessageKey;
using storage::MessageRef;
using storage::Record;
using storage::RecordType;

namespace {

// Entries in one page of the backlog: few against what memory holds, many against the cost of the
// claim that each page needs.
constexpr size_t kReadBackPage = 1000;

// Entries that one SpillOld looks at.
constexpr size_t kSpillsPerStep = 2000;

MessageKey After(MessageKey key) {
  if (++key.id.low == 0) ++key.id.high;
  return key;
}

}  // namespace

void Dispatcher::FallBehind(Topic* topic, const MessageKey& key) {
  if (!topic->behind) {
    topic->behind = true;
    topic->backlog_cursor = key;
    ++behind_;
  } else {
    topic->backlog_cursor = std::min(topic->backlog_cursor, key);
  }
}

void Dispatcher::SpillNew(const MessageRef& message, Topic* topic) {
  FallBehind(topic, message.key);
  scheduler_->safe_mark()->Hold(message.key.due_ms);
  AddSpillRecord({.key = message.key, .topic = topic, .index = kNoEntry, .forget = false},
                 {.attempts = 0,
                  .bytes = message.bytes,
                  .maybe_delivered = scheduler_->MaybeDelivered(message.key)});
}

void Dispatcher::SpillEntry(EntryIndex index, bool forget) {
  DueEntry& entry = table_[index];
  BacklogEntry record{
      .attempts = entry.attempts, .bytes = entry.bytes, .maybe_delivered = entry.maybe_delivered};
  if (forget) {
    entry.state = EntryState::kForgetting;
    ++entry.topic->forgets_in_flight;
    if (entry.attempts > 0) entry.topic->forgot_delivered = true;
    FallBehind(entry.topic, entry.key());
  } else {
    // It stays in memory and may be delivered from there, which no record will tell.
    record.maybe_delivered = true;
  }
  entry.spilled = true;
  AddSpillRecord({.key = entry.key(), .topic = entry.topic, .index = index, .forget = forget},
                 record);
}

void Dispatcher::AddSpillRecord(const Spill& spill, BacklogEntry entry) {
  Record record;
  record.type = RecordType::kSpill;
  record.shard = shard_;
  record.subscription = storage::FirstSubscription(spill.topic->id);
  record.key = spill.key;
  record.backlog = entry;
  // Buffered: if it is lost, so is every W_safe that counts on it, and recovery finds the message
  // itself.
  outbox_->Add(std::move(record), Durability::kBuffered);
  ++spill.topic->spills_in_flight;
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
  --spill.topic->spills_in_flight;
  if (spill.forget) --spill.topic->forgets_in_flight;
  scheduler_->NoteProgress();
  if (spill.index == kNoEntry) {
    scheduler_->safe_mark()->Release(spill.key.due_ms);
    FallBehind(spill.topic, spill.key);
    WantReadBack(spill.topic);
    return;
  }
  WantReadBack(spill.topic);
  // The entry may have ended meanwhile, and its place may be another's.
  DueEntry& entry = table_[spill.index];
  if (entry.state == EntryState::kFree || entry.key() != spill.key) return;
  if (entry.held) {
    scheduler_->safe_mark()->Release(entry.due_ms);
    entry.held = false;
  }
  if (entry.state == EntryState::kForgetting) {
    FallBehind(spill.topic, spill.key);
    Forget(spill.index);
  }
}

void Dispatcher::AddUnspill(const MessageKey& key, const Topic& topic) {
  Record record;
  record.type = RecordType::kUnspill;
  record.shard = shard_;
  record.subscription = storage::FirstSubscription(topic.id);
  record.key = key;
  outbox_->Add(std::move(record), Durability::kBuffered);
}

void Dispatcher::SpillOld(base::Now now, bool* more) {
  if (now.mono_ms >= next_spill_mono_ms_) {
    next_spill_mono_ms_ = now.mono_ms + limits_.safe_period_ms;
    for (Topic* const topic : std::exchange(not_due_, {})) WantReadBack(topic);
    if (CanReadBack()) *more = true;
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
    if (entry.state == EntryState::kReady && entry.topic->streams == 0) {
      ForgetReady(entry.topic);
    } else {
      SpillEntry(index, /*forget=*/false);
    }
  }
  if (!old_.empty()) *more = true;
}

void Dispatcher::ForgetReady(Topic* topic) {
  // Nobody is there to take them from memory, so they need not be there. All of them, or what stays
  // would be handed out before what is older.
  while (topic->ready.head != kNoEntry) {
    const EntryIndex index = topic->ready.head;
    TakeOut(index);
    SpillEntry(index, /*forget=*/true);
  }
}

// ---- Reading back
// ---------------------------------------------------------------------------------------------------

void Dispatcher::WantReadBack(Topic* topic) {
  if (!topic->behind || topic->reading || topic->read_queued || topic->willing.empty() ||
      topic->forgets_in_flight > 0 || topic->ready.count >= limits_.frame_messages_max) {
    return;
  }
  // Memory full of other topics leaves a small share, as for new messages.
  if (table_.size() >= limits_.due_max && topic->entries >= limits_.due_idle_max) return;
  topic->read_queued = true;
  read_queue_.push_back(topic);
}

size_t Dispatcher::RoomToReadBack() const {
  const size_t used = table_.size() + reading_;
  return used >= 2 * limits_.due_max ? 0 : 2 * limits_.due_max - used;
}

absl::Status Dispatcher::ReadRecoveredClaim(Topic* topic) {
  if (topic->claim_read) return absl::OkStatus();
  const auto claim = store_->BacklogClaim(shard_, storage::FirstSubscription(topic->id));
  if (!claim.ok()) return claim.status();
  topic->claim_read = true;
  topic->recovered_claim = topic->claim = *claim;
  return absl::OkStatus();
}

bool Dispatcher::ClaimedBefore(const Topic& topic, const MessageKey& key) const {
  return key.id.epoch() < scheduler_->epoch() && topic.recovered_claim.has_value() &&
         key <= *topic.recovered_claim;
}

absl::Status Dispatcher::ReadBack(base::Now now, Topic* topic) {
  const storage::ScanLimit limit{.entries = std::min(kReadBackPage, RoomToReadBack())};
  DT_CHECK_GT(limit.entries, 0u);
  if (!topic->behind || topic->reading || topic->willing.empty() || topic->forgets_in_flight > 0) {
    return absl::OkStatus();
  }
  if (absl::Status status = ReadRecoveredClaim(topic); !status.ok()) return status;
  storage::Page<BacklogRef> page;
  if (absl::Status status = store_->ScanBacklog(shard_, storage::FirstSubscription(topic->id),
                                                topic->backlog_cursor, limit, &page);
      !status.ok()) {
    return status;
  }
  if (page.items.empty()) {
    // Caught up, unless more is on its way to disk; its commit will bring us back.
    if (topic->spills_in_flight == 0) {
      topic->behind = false;
      topic->forgot_delivered = false;
      --behind_;
    }
    return absl::OkStatus();
  }
  // Listed although it is not due: the clock was ahead in an earlier run. It is looked at again
  // from time to time.
  std::erase_if(page.items,
                [&now](const BacklogRef& item) { return item.key.due_ms > now.wall_ms; });
  if (page.items.empty()) {
    not_due_.push_back(topic);
    return absl::OkStatus();
  }
  const MessageKey last = page.items.back().key;
  topic->backlog_cursor = After(last);
  std::erase_if(page.items, [this, topic](const BacklogRef& item) {
    const EntryIndex index = table_.Find(item.key.id);
    const bool held = latches_->Held(item.key.id);
    if (held) UnlistEcho(item.key, *topic);
    return held || (index != kNoEntry && table_[index].due_ms == item.key.due_ms);
  });
  if (page.items.empty()) {
    WantReadBack(topic);
    return absl::OkStatus();
  }
  // Claimed before it is handed out, so that a cancel after a crash knows what may have been
  // delivered.
  topic->reading = true;
  reading_ += page.items.size();
  topic->claim = std::max(topic->claim.value_or(last), last);
  Record record;
  record.type = RecordType::kBacklogClaim;
  record.shard = shard_;
  record.subscription = storage::FirstSubscription(topic->id);
  record.key = *topic->claim;
  outbox_->Add(std::move(record), Durability::kSynced);
  outbox_->Then([this, topic, items = std::move(page.items)](base::Now, bool accepted) {
    if (accepted) OnReadBack(topic, items);
  });
  return absl::OkStatus();
}

void Dispatcher::OnReadBack(Topic* topic, const std::vector<BacklogRef>& page) {
  topic->reading = false;
  reading_ -= page.size();
  if (topic->backlog_cursor <= page.back().key) {
    // Something older went to disk while the claim was on its way (the last subscriber left, and
    // memory was given up): it comes first, so this page is read again after it.
    FallBehind(topic, page.front().key);
    WantReadBack(topic);
    return;
  }
  for (const BacklogRef& item : page) {
    if (latches_->Held(item.key.id)) {
      UnlistEcho(item.key, *topic);
      continue;
    }
    if (const EntryIndex found = table_.Find(item.key.id); found != kNoEntry) {
      if (table_[found].due_ms != item.key.due_ms) ReadBackAgain(found, item);
      continue;
    }
    ++stats_->read_back;
    const EntryIndex index =
        AddEntry({.key = item.key, .topic = topic->id, .bytes = item.entry.bytes}, topic);
    DueEntry& entry = table_[index];
    entry.attempts = item.entry.attempts;
    entry.maybe_delivered = item.entry.maybe_delivered || ClaimedBefore(*topic, item.key);
    entry.spilled = true;
    MakeReady(index);
  }
  WantReadBack(topic);
}

void Dispatcher::UnlistEcho(const MessageKey& key, const Topic& topic) {
  const auto record = store_->Get(shard_, key);
  if (!record.ok()) {
    read_error_ = record.status();
  } else if (!record->has_value()) {
    AddUnspill(key, topic);
  }
}

void Dispatcher::ReadBackAgain(EntryIndex index, const BacklogRef& item) {
  DueEntry& entry = table_[index];
  if (entry.state == EntryState::kForgetting) {
    FallBehind(entry.topic, item.key);  // and it is read again when that entry is gone
    return;
  }
  // One of the two is the echo of a time before it was moved. The store knows which.
  if (!entry.seen && entry.state == EntryState::kReady) {
    const auto record = store_->Get(shard_, item.key);
    if (!record.ok()) {
      read_error_ = record.status();
      return;
    }
    if (record->has_value()) {
      if (entry.held) scheduler_->safe_mark()->Release(entry.due_ms);
      if (entry.spilled) AddUnspill(entry.key(), *entry.topic);
      entry.due_ms = item.key.due_ms;
      entry.bytes = item.entry.bytes;
      entry.attempts = item.entry.attempts;
      entry.maybe_delivered = item.entry.maybe_delivered || ClaimedBefore(*entry.topic, item.key);
      entry.spilled = true;
      entry.held = false;
      return;
    }
  }
  AddUnspill(item.key, *entry.topic);
}

absl::Status Dispatcher::InBacklog(const MessageRef& message, Topic* topic, bool* listed) {
  const auto entry = store_->GetBacklog(shard_, storage::FirstSubscription(topic->id), message.key);
  if (!entry.ok()) return entry.status();
  *listed = entry->has_value();
  return absl::OkStatus();
}

}  // namespace duetime::delivery
