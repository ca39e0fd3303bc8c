// SPDX-License-Identifier: Apache-2.0
#include "server/scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/base/mix.h"
#include "server/scheduler/message_writer.h"
#include "storage/message_record.h"

namespace duetime::scheduler {

using storage::Durability;
using storage::MessageId;
using storage::MessageKey;
using storage::MessageRef;
using storage::Record;
using storage::RecordType;

namespace {

// One page of the loader: bounded work per step, in entries and in bytes read.
constexpr storage::ScanLimit kLoadPage{.entries = 1000, .bytes = 4 << 20};

constexpr uint32_t kTimerBytesMask = (uint32_t{1} << 30) - 1;

// A full wheel still loads messages that are due this soon, because they leave it again at once.
constexpr uint64_t kUrgentMs = 20;

// Moves into the claim of an earlier run that are remembered: 1.6 MB. They end when the claim's
// time has passed, as a rule after a second.
constexpr size_t kMovedHereMax = 100'000;

// A step takes up to this many messages out of the wheel for each message that it may fire. That
// costs about as much as four firings (tests/bench/RESULTS.md), but messages that are due after a
// crowd wait until the crowd has left the wheel.
constexpr size_t kExpiriesPerFire = 64;
// The messages that leave the wheel at a time: as many as fit into the first-level cache.
constexpr size_t kExpireChunk = 512;
// A step fires at least the turns of four topics, however many messages left the wheel.
constexpr size_t kFireMin = 4 * DueTurns::kTurn;

}  // namespace

Scheduler::Scheduler(const SchedulerOptions& options, storage::MessageStore* store,
                     PendingWrites* writes, MessageWriter* writer)
    : options_(options),
      store_(store),
      writes_(writes),
      writer_(writer),
      wheel_(std::in_place, 0, options.slabs),
      turns_(options.slabs) {
  DT_CHECK_LT(options.limits.claim_renew_ms, options.limits.claim_ahead_ms);
  DT_CHECK_GT(options.limits.loaded_max, 0u);
}

absl::Status Scheduler::Recover(base::Now now) {
  DT_CHECK_EQ(claim_decided_ms_, 0u);
  DT_CHECK_EQ(timers(), 0u);
  const auto marks = store_->Marks(options_.shard);
  if (!marks.ok()) return marks.status();
  epoch_ = store_->epoch();
  next_sequence_ = store_->first_sequence();
  recovered_claim_ms_ = marks->claim_ms;
  if (marks->claim_return.has_value()) {
    uncertain_ = *marks->claim_return;
    // This run is not clean until it stops, so a record of it must replace the record of the clean
    // stop before the first delivery. The journal's order does that for the backlogs, and the
    // missing claim for the wheel.
    AddClaimRecord(recovered_claim_ms_, std::nullopt, Durability::kBuffered);
  } else {
    uncertain_ = {.until_ms = marks->claim_ms, .epoch = epoch_ - 1};
    claim_ms_ = claim_decided_ms_ = marks->claim_ms;
  }
  low_watermark_ms_ = marks->low_watermark_ms;
  TakeBackLowWatermark(now);
  next_watermark_mono_ms_ = now.mono_ms + options_.limits.low_watermark_period_ms;
  horizon_.Publish(MessageKey::FirstAt(low_watermark_ms_));
  load_from_ms_ = low_watermark_ms_;
  load_partial_ = true;
  return absl::OkStatus();
}

void Scheduler::TakeBackLowWatermark(base::Now now) {
  if (low_watermark_ms_ <= now.wall_ms) return;
  // The clock was ahead and has been set right. New messages are never keyed below the low
  // watermark, so they would all wait until the wrong time. The messages that are then scanned
  // again are settled, listed or in memory.
  low_watermark_ms_ = now.wall_ms;
  AddLowWatermarkRecord();
}

void Scheduler::FollowClock(base::Now now) {
  const uint64_t reached_ms = std::max(wheel_->position(), low_watermark_ms_);
  if (reached_ms > now.wall_ms + kStandStillMs) BeginAgain(now);
}

void Scheduler::BeginAgain(base::Now now) {
  DT_CHECK(wheel_->position() > now.wall_ms || low_watermark_ms_ > now.wall_ms);
  ++restarts_;
  // What was fired is fired again at its time, by the corrected clock. The sink keeps it once.
  repeat_until_ms_ = std::max({repeat_until_ms_, wheel_->position(), low_watermark_ms_});
  // A late message holds the low watermark itself. It is at the wheel's position or has left the
  // wheel.
  expired_.clear();
  while (!wheel_->Advance(wheel_->position(), kExpireChunk, &expired_)) {
  }
  turns_.Take(turns_.size(), &expired_);
  for (const Wheel::Expired& due : expired_) {
    if (due.entry.pinned != 0) low_watermark_.Release(due.due);
  }
  expired_.clear();
  moved_.clear();
  TakeBackLowWatermark(now);
  // The horizon retreats first: see Horizon. Nothing pending is due below the low watermark.
  horizon_.Publish(MessageKey::FirstAt(low_watermark_ms_));
  load_from_ms_ = std::min(load_from_ms_, low_watermark_ms_);
  load_partial_ = true;
  wheel_.emplace(low_watermark_ms_ - std::min<uint64_t>(low_watermark_ms_, 1), options_.slabs);
  DT_CHECK_LE(low_watermark_ms_, now.wall_ms);
  DT_CHECK_EQ(timers(), 0u);
}

uint64_t Scheduler::PlaceOf(base::Now now, uint64_t deliver_ms) const {
  const uint64_t due_ms = std::max({deliver_ms, now.wall_ms, low_watermark_ms_});
  DT_CHECK_LE(due_ms, MessageId::kDueMax);
  return due_ms;
}

MessageKey Scheduler::NewKey(base::Now now, uint32_t slot, uint64_t deliver_ms,
                             uint64_t spread_ms) {
  DT_CHECK_LE(next_sequence_, MessageId::kSequenceMax);
  DT_CHECK_EQ(storage::ShardOfSlot(slot, store_->shard_count()), options_.shard);
  const uint64_t sequence = next_sequence_++;
  const uint64_t point_ms = SpreadPoint(epoch_, sequence, spread_ms);
  const uint64_t due_ms = PlaceOf(now, deliver_ms + point_ms);
  return {.due_ms = due_ms, .id = MessageId::Make(epoch_, sequence, slot, due_ms)};
}

MessageId Scheduler::NextId() const { return MessageId::Make(epoch_, next_sequence_, 0, 0); }

void Scheduler::SkipIdsBefore(const MessageId& first) {
  if (first.epoch() == epoch_) next_sequence_ = std::max(next_sequence_, first.sequence());
}

uint64_t Scheduler::SpreadPoint(uint64_t epoch, uint64_t sequence, uint64_t spread_ms) {
  if (spread_ms == 0) return 0;
  return base::Mix((epoch << 40) ^ sequence) % (spread_ms + 1);
}

void Scheduler::Put(base::Now now, const MessageRef& message, std::string record,
                    std::optional<size_t> replaces) {
  const MessageId& id = message.key.id;
  // Recovery, which starts at the low watermark, would not find it (P1).
  DT_CHECK_GE(message.key.due_ms, low_watermark_ms_);
  if (message.key.due_ms <= uncertain_.until_ms && id.epoch() <= uncertain_.epoch &&
      moved_here_.size() < kMovedHereMax) {
    moved_here_.insert(id);
  }
  // The message will never be at the place of the record that is replaced.
  if (replaces.has_value()) {
    DT_CHECK_LT(*replaces, writes_->open_records().size());
    low_watermark_.Release(writes_->open_records()[*replaces].key.due_ms);
  }
  // The low watermark must not pass a commit in flight: recovery would not find the message.
  low_watermark_.Pin(message.key.due_ms);
  writer_->Put(message.key, message.topic, std::move(record), replaces);
  // A message that is due very soon gets its claim in the same batch, so that it need not wait for
  // a second one.
  if (message.key.due_ms <= now.wall_ms + options_.limits.claim_renew_ms) Claim(now);
}

bool Scheduler::OnPut(const MessageRef& message) {
  const bool added = OfferAccepted(message);
  low_watermark_.Release(message.key.due_ms);
  NoteProgress();
  return added;
}

void Scheduler::OnMoved(uint64_t from_ms, bool was_loaded, const MessageRef& to) {
  const MessageId& id = to.key.id;
  const auto it = moved_.find(id);
  // The timer that is certainly still in the wheel, if any. A timer that is not known here is
  // harmless, because the message is no longer at the place that it offers.
  uint64_t timer_ms = wheel::kNever;
  if (it != moved_.end()) {
    timer_ms = it->second.timer_ms;
  } else if (was_loaded && from_ms > wheel_->position()) {
    timer_ms = from_ms;
  }
  if (timer_ms <= to.key.due_ms) {
    // The existing timer expires first and then moves to the new time. So a message that is pushed
    // back again and again has one timer, not one for each push.
    Moved& moved = it != moved_.end() ? it->second : moved_[id];
    moved.to = to;
    moved.timer_ms = timer_ms;
    moved.stale_until_ms = std::max(moved.stale_until_ms, timer_ms);
    low_watermark_.Release(to.key.due_ms);
    NoteProgress();
    return;
  }
  const bool added = OnPut(to);
  if (it == moved_.end() && timer_ms == wheel::kNever) return;  // nothing of it is in the wheel
  Moved& moved = it != moved_.end() ? it->second : moved_[id];
  moved.to = to;
  if (timer_ms != wheel::kNever) moved.stale_until_ms = std::max(moved.stale_until_ms, timer_ms);
  moved.timer_ms = added ? to.key.due_ms : wheel::kNever;
}

bool Scheduler::IsStale(const MessageKey& key) {
  const auto it = moved_.find(key.id);
  if (it == moved_.end()) return false;
  Moved& moved = it->second;
  DT_CHECK(moved.to.key.id == key.id);
  const bool stale = moved.to.key.due_ms != key.due_ms;
  if (!stale) {
    // The message is fired, so its other timers are stale from now on.
    moved.to.key.due_ms = moved.timer_ms = wheel::kNever;
  } else if (key.due_ms == moved.timer_ms) {
    // If the new time is not loaded yet, the loader will read the message there.
    const bool loaded = horizon_.Covers(moved.to.key);
    if (loaded) AddTimer(moved.to);
    moved.timer_ms = loaded ? moved.to.key.due_ms : wheel::kNever;
  }
  if (moved.timer_ms == wheel::kNever && moved.stale_until_ms <= key.due_ms) moved_.erase(it);
  return stale;
}

bool Scheduler::OfferAccepted(const MessageRef& message) {
  // The commit is visible before the horizon is read (see Horizon for the reason). A message at or
  // above the horizon stays on disk, where the loader will read it.
  if (!horizon_.Covers(message.key)) return false;
  const bool late = message.key.due_ms <= wheel_->position();
  if (!late && timers() >= options_.limits.loaded_max) {
    // Without room the horizon retreats to this message. The messages above it in the wheel will be
    // offered again, and the sink keeps each one once.
    repeat_until_ms_ = std::max(repeat_until_ms_, horizon_.until().due_ms);
    horizon_.Publish(message.key);
    return false;
  }
  AddTimer(message);
  return true;
}

void Scheduler::AddTimer(const MessageRef& message) {
  // The low watermark stays at or below the wheel's time, which protects the messages ahead of it.
  // A late message holds the watermark itself: it leaves the wheel behind messages that are due
  // later, so LowestDue does not find it at the front of DueTurns.
  const bool late = message.key.due_ms <= wheel_->position();
  if (late) low_watermark_.Pin(message.key.due_ms);
  Timer timer;
  timer.id = message.key.id;
  timer.topic = message.topic;
  timer.bytes = message.bytes & kTimerBytesMask;
  timer.recurs = (message.flags & storage::MessageFlags::kRecurs) != 0 ? 1u : 0u;
  timer.pinned = late ? 1u : 0u;
  wheel_->Add(message.key.due_ms, timer);
}

bool Scheduler::HasRoom() const {
  // The loader leaves half of the room for messages that are accepted below the horizon, so that
  // the horizon rarely has to retreat and messages rarely have to be offered again.
  return timers() <= options_.limits.loaded_max / 2;
}

bool Scheduler::Overfull() const { return timers() >= 2 * options_.limits.loaded_max; }

absl::Status Scheduler::Load(base::Now now, bool* more) {
  const MessageKey from = horizon_.until();
  if (!HasRoom() && from.due_ms > now.wall_ms + kUrgentMs) return absl::OkStatus();
  MessageKey until = MessageKey::FirstAt(now.wall_ms + options_.limits.load_window_ms);
  if (Overfull()) {
    // The messages in the wheel wait for the horizon, so the horizon must move, but only over
    // messages that leave the wheel again at once.
    if (from.due_ms <= now.wall_ms + options_.limits.claim_renew_ms) Claim(now);
    until = MessageKey::FirstAt(std::min(now.wall_ms, claim_ms_) + 1);
    if (until <= from) return absl::OkStatus();
  }
  if (until <= from) {
    load_partial_ = false;
    return absl::OkStatus();
  }
  // The window is refilled when half of it is used up, not at every millisecond.
  if (!load_partial_ && from.due_ms > now.wall_ms + options_.limits.load_window_ms / 2) {
    return absl::OkStatus();
  }
  horizon_.Publish(until);  // before the store is read: see Horizon
  storage::Page<MessageRef> page;
  if (absl::Status status = store_->Scan(options_.shard, from, until, kLoadPage, &page);
      !status.ok()) {
    return status;
  }
  for (const MessageRef& message : page.items) {
    DT_CHECK(from <= message.key);
    DT_CHECK(message.key < until);
    AddTimer(message);
  }
  // The bytes may be readable again in the next run, after a repair or if the disk misread them. So
  // that run begins here: this hold has no release.
  if (page.damaged) low_watermark_.Pin(from.due_ms);
  counters_.loaded += page.items.size();
  load_partial_ = page.next.has_value() || until.due_ms <= now.wall_ms;
  if (page.next.has_value()) {
    horizon_.Publish(*page.next);
    *more = HasRoom() || page.next->due_ms <= now.wall_ms + kUrgentMs;
  }
  return absl::OkStatus();
}

void Scheduler::Claim(base::Now now) {
  if (claim_decided_ms_ >= now.wall_ms + options_.limits.claim_renew_ms) return;
  // Never below an earlier claim, which covers the records of earlier deliveries.
  const uint64_t mark_ms =
      std::max(now.wall_ms + options_.limits.claim_ahead_ms, recovered_claim_ms_);
  DT_CHECK_GT(mark_ms, claim_decided_ms_);
  AddClaimRecord(mark_ms, std::nullopt, Durability::kSynced);
  claim_decided_ms_ = mark_ms;
  ++counters_.claims;
  writes_->Then([this, mark_ms](base::Now, bool accepted) {
    if (accepted) claim_ms_ = std::max(claim_ms_, mark_ms);
  });
}

void Scheduler::AddClaimRecord(uint64_t mark_ms,
                               const std::optional<storage::ClaimReturn>& claim_return,
                               Durability durability) {
  Record record;
  record.type = RecordType::kClaim;
  record.shard = options_.shard;
  record.mark_ms = mark_ms;
  record.claim_return = claim_return;
  writes_->Add(std::move(record), durability);
}

absl::Status Scheduler::Step(base::Now now, size_t budget, DueSink* sink, bool* more) {
  DT_CHECK_GT(budget, 0u);
  if (absl::Status status = Load(now, more); !status.ok()) return status;
  // After a small step back time stands still (FollowClock).
  if (wheel_->position() > now.wall_ms) return absl::OkStatus();
  // Emptying the wheel comes first: messages that are due after a crowd are not visible until the
  // crowd has left the wheel.
  const size_t left = Expire(now, budget * kExpiriesPerFire, more);
  Fire(now, sink, std::max(left / kExpiriesPerFire, std::min(budget, kFireMin)));
  if (turns_.size() > 0) *more = true;
  return absl::OkStatus();
}

size_t Scheduler::Expire(base::Now now, size_t budget, bool* more) {
  const uint64_t next_ms = wheel_->NextDue();
  if (next_ms <= now.wall_ms + options_.limits.claim_renew_ms) Claim(now);
  // The wheel must not pass the clock (never early), the claim (true cancel) or the horizon
  // (order). The tick in which loading stopped is included, or a tick with more messages than the
  // wheel has room for would never end.
  const uint64_t target_ms = std::min({now.wall_ms, claim_ms_, horizon_.until().due_ms});
  if (target_ms < wheel_->now() || (target_ms == wheel_->now() && next_ms > target_ms)) {
    return budget;
  }
  for (;;) {
    const size_t chunk = std::min(budget, kExpireChunk);
    expired_.clear();
    const bool all = wheel_->Advance(target_ms, chunk, &expired_);
    for (const Wheel::Expired& due : expired_) {
      if (moved_.empty() || !IsStale({.due_ms = due.due, .id = due.entry.id})) {
        turns_.Add(due);
      } else if (due.entry.pinned != 0) {
        low_watermark_.Release(due.due);
      }
    }
    budget -= all ? std::min(chunk, expired_.size()) : chunk;
    if (all) return budget;
    if (budget == 0) break;
  }
  *more = true;
  return 0;
}

void Scheduler::Fire(base::Now now, DueSink* sink, size_t budget) {
  expired_.clear();
  turns_.Take(budget, &expired_);
  for (const auto& [due_ms, timer] : expired_) {
    DT_CHECK_LE(due_ms, now.wall_ms);
    DT_CHECK_LE(due_ms, claim_ms_);
    ++counters_.fired;
    const uint8_t flags = timer.recurs != 0 ? storage::MessageFlags::kRecurs : uint8_t{0};
    sink->OnDue(now, MessageRef{.key = {.due_ms = due_ms, .id = timer.id},
                                .topic = timer.topic,
                                .bytes = timer.bytes,
                                .flags = flags});
    if (timer.pinned != 0) low_watermark_.Release(due_ms);
  }
  if (!expired_.empty()) progress_ = true;
}

void Scheduler::WriteLowWatermark(base::Now now) {
  if (!progress_ || now.mono_ms < next_watermark_mono_ms_) return;
  next_watermark_mono_ms_ = now.mono_ms + options_.limits.low_watermark_period_ms;
  progress_ = false;
  AdvanceLowWatermark();
}

void Scheduler::AdvanceLowWatermark() {
  const uint64_t mark_ms = low_watermark_.LowestPinned(
      turns_.LowestDue(std::min(wheel_->now() + 1, horizon_.until().due_ms)));
  if (mark_ms <= low_watermark_ms_) return;
  // What the loader has not read yet is pending.
  DT_CHECK_LE(mark_ms, horizon_.until().due_ms);
  low_watermark_ms_ = mark_ms;
  AddLowWatermarkRecord();
}

void Scheduler::GiveBackClaim() {
  AdvanceLowWatermark();
  AddClaimRecord(std::max(claim_decided_ms_, recovered_claim_ms_), uncertain_, Durability::kSynced);
}

void Scheduler::AddLowWatermarkRecord() {
  Record record;
  record.type = RecordType::kLowWatermark;
  record.shard = options_.shard;
  record.mark_ms = low_watermark_ms_;
  // Buffered is enough: the journal keeps the order, so the low watermark never survives without
  // the records that it covers.
  writes_->Add(std::move(record), Durability::kBuffered);
}

uint64_t Scheduler::NextWakeWall(base::Now now) const {
  if (wheel_->position() > now.wall_ms) return wheel_->position();
  // The window is refilled when half of it is used up. A full wheel is refilled as it empties, or
  // when the next messages on disk are due in kUrgentMs.
  const uint64_t loaded_ms = horizon_.until().due_ms;
  uint64_t wake_ms = wheel::kNever;
  if (!Overfull()) {
    const uint64_t lead_ms = HasRoom() ? options_.limits.load_window_ms / 2 : kUrgentMs;
    wake_ms = loaded_ms > lead_ms ? loaded_ms - lead_ms : 0;
  } else if (claim_ms_ >= loaded_ms) {
    wake_ms = loaded_ms;
  } else if (claim_decided_ms_ < loaded_ms) {
    wake_ms =
        loaded_ms > options_.limits.claim_renew_ms ? loaded_ms - options_.limits.claim_renew_ms : 0;
  }  // else: the claim's commit will wake us
  const uint64_t next_ms = wheel_->NextDue();
  if (next_ms == wheel::kNever) return wake_ms;
  DT_CHECK_LE(claim_ms_, claim_decided_ms_);
  if (claim_decided_ms_ < next_ms) {
    // The shard must wake up early enough to claim the message first.
    const uint64_t claim_at_ms =
        next_ms > options_.limits.claim_renew_ms ? next_ms - options_.limits.claim_renew_ms : 0;
    wake_ms = std::min(wake_ms, claim_at_ms);
  } else if (claim_ms_ >= next_ms || next_ms > now.wall_ms) {
    wake_ms = std::min(wake_ms, next_ms);
  }  // else: the claim's commit will wake us
  return wake_ms;
}

uint64_t Scheduler::NextWakeMono() const {
  return progress_ ? next_watermark_mono_ms_ : wheel::kNever;
}

void Scheduler::CheckInvariants() const {
  wheel_->CheckInvariants();
  turns_.CheckInvariants();
  DT_CHECK_LE(claim_ms_, claim_decided_ms_);
  DT_CHECK_LE(low_watermark_ms_, horizon_.until().due_ms);
}

}  // namespace duetime::scheduler
