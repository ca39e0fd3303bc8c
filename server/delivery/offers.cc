// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/offers.h"

#include <algorithm>

#include "server/base/check.h"
#include "server/delivery/backlog/backlog.h"
#include "server/delivery/delivery_states.h"
#include "server/delivery/endings/message_ends.h"
#include "server/delivery/endings/message_status.h"
#include "server/delivery/endings/retries.h"
#include "server/delivery/memory_share.h"
#include "server/delivery/occurrence_sink.h"
#include "server/delivery/pace/turns.h"
#include "server/delivery/subscriptions/subscriptions.h"
#include "server/scheduler/scheduler.h"

namespace duetime::delivery {

using storage::MessageKey;
using storage::MessageRef;
using storage::Progress;

Offers::Offers(const Core& core, MessageStatus* status, MessageEnds* ends, Retries* retries)
    : core_(core), status_(status), ends_(ends), retries_(retries) {}

void Offers::OnDue(base::Now now, const MessageRef& message) {
  DT_CHECK_LE(message.key.due_ms, core_.scheduler.claim_ms());
  // A command is ending or moving the message. If the message lives on, it is offered again.
  if (core_.key_locks.Locked(message.key.id)) return;
  const Topic& topic = *core_.subscriptions.TopicOf(message.topic);
  const bool repeats = core_.scheduler.MayRepeat(message.key);
  ProgressRows rows;
  if (MayHaveRows(topic, repeats)) {
    auto read = core_.reader.Progress(message.key);
    if (!read.ok()) return OfferInNextRun(message, read.status());
    rows = *std::move(read);
  }
  takers_.clear();
  const Known known = FindTakers(message, topic, rows, repeats, &takers_);
  if (!core_.reader.ok()) return;
  // The uncommitted settlement does not end the message, because another subscription was to
  // receive it. If that subscription is gone now, no settlement will end the message.
  if (takers_.empty() && ends_->OnlySettling(message.key)) return OfferAfterCommit(message);
  if (known.wanted && takers_.empty()) return;
  // The next occurrence of a recurrence is made when this one is due, even if no subscription wants
  // this one.
  if ((message.flags & storage::MessageFlags::kRecurs) != 0 && !known.known &&
      !core_.occurrences->OnOccurrenceDue(now, message)) {
    return;
  }
  if (!known.wanted) {
    const bool settled = std::any_of(
        topic.subscriptions.begin(), topic.subscriptions.end(), [&](const Subscription* one) {
          return one->Covers(message.key.id) && rows.Settled(one->state.id);
        });
    return EndUnwanted(now, message, settled);
  }
  // The timer of a cancelled message stays in the wheel. A bounded subscription would count such a
  // message among those that it keeps, so the store must confirm that the message exists.
  if (core_.limits.test_clock ||
      std::any_of(takers_.begin(), takers_.end(),
                  [](const Taker& taker) { return taker.subscription->bounded(); })) {
    const auto record = core_.reader.Record(message.key);
    // A damaged message is offered: HandOut and server/api deal with it.
    if (!core_.reader.ok() || (record.ok() && !record->has_value())) return;
  }
  ++core_.stats.fired;
  for (const Taker& taker : takers_) {
    Offer(now, message, taker, rows.Find(taker.subscription->state.id));
  }
}

void Offers::OfferAfterCommit(const MessageRef& message) {
  DT_CHECK(ends_->OnlySettling(message.key));
  // The hold keeps the low watermark below the message, so that a recovery also offers it again.
  core_.scheduler.low_watermark()->Pin(message.key.due_ms);
  core_.writes.Then([this, message](base::Now then, bool accepted) {
    if (!accepted) return;
    // If the clock was set back meanwhile, HandOut waits for the message's time.
    OnDue(then, message);
    core_.scheduler.low_watermark()->Release(message.key.due_ms);
    core_.scheduler.NoteProgress();
  });
}

void Offers::OfferInNextRun(const MessageRef& message, const absl::Status& unread) {
  // Nobody releases this hold.
  if (storage::IsDamage(unread)) core_.scheduler.low_watermark()->Pin(message.key.due_ms);
}

bool Offers::MayHaveRows(const Topic& topic, bool repeats) const {
  const auto& all = topic.subscriptions;
  return topic.several || repeats || std::any_of(all.begin(), all.end(), [](const Subscription* s) {
           return s->forgot_delivered;
         });
}

Offers::Known Offers::FindTakers(const MessageRef& message, const Topic& topic,
                                 const ProgressRows& rows, bool repeats,
                                 std::vector<Taker>* takers) {
  DT_CHECK(takers->empty());
  Known known{.known = !rows.empty(), .wanted = false};
  for (Subscription* const subscription : topic.subscriptions) {
    if (!subscription->Covers(message.key.id)) continue;
    const Progress* const row = rows.Find(subscription->state.id);
    if (row != nullptr && row->state == Progress::State::kSettled) continue;
    known.wanted = true;
    const EntryIndex index = core_.table.Find(message.key.id, subscription);
    const Listed listed =
        index == kNoEntry ? IsListed(message, *subscription, row, repeats) : Listed::kYes;
    if (listed != Listed::kYes) {
      takers->push_back({.subscription = subscription, .uncertain = listed == Listed::kUnknown});
      continue;
    }
    known.known = true;
    if (index != kNoEntry) OfferAgain(index, message, row);
  }
  return known;
}

Listed Offers::IsListed(const MessageRef& message, const Subscription& subscription,
                        const Progress* row, bool repeats) {
  if (!subscription.backlog.any()) return Listed::kNo;
  // BacklogReader brings a listed message back, with its attempts.
  if (row != nullptr && row->listed) return Listed::kYes;
  // The fill may have listed the message, or the scheduler offers it again. A bounded subscription
  // must not count it twice.
  const bool ask_disk = subscription.bounded() || subscription.forgot_delivered || repeats ||
                        subscription.backlog.parked().has_value() || subscription.order.rests() > 0;
  return ask_disk ? core_.backlog.ListedAt(message.key, subscription) : Listed::kNo;
}

void Offers::Offer(base::Now now, const MessageRef& message, const Taker& taker,
                   const Progress* row) {
  Subscription* const subscription = taker.subscription;
  DT_CHECK(subscription->Covers(message.key.id));
  DT_CHECK(row == nullptr || row->state != Progress::State::kSettled);
  if (!core_.memory.FitsNew(*subscription)) {
    return core_.backlog.ListNew(message, subscription, row, taker.uncertain);
  }
  const EntryIndex index = core_.table.Insert(message.key, subscription);
  PendingDelivery& entry = core_.table[index];
  entry.bytes = message.bytes;
  entry.maybe_delivered = taker.uncertain || core_.scheduler.MaybeDelivered(message.key);
  entry.fire_ms = now.wall_ms;
  core_.states.Pin(index);
  if (row != nullptr) {
    entry.attempts = row->attempts;
    entry.half_failures = row->half_failures();
    entry.suspect = Retries::IsSuspect(row);
    entry.progress = true;
    if (row->retry_ms > now.wall_ms) return retries_->ResumeDelay(now, index, *row);
  }
  core_.states.MakeReady(index);
}

void Offers::OfferAgain(EntryIndex index, const MessageRef& message, const Progress* row) {
  const PendingDelivery& entry = core_.table[index];
  if (entry.due_ms == message.key.due_ms || entry.seen || entry.state == EntryState::kEnding) {
    return;
  }
  // The message was moved, so one of its two places is stale. The store shows which one.
  const auto record = core_.reader.Record(message.key);
  if (!record.ok()) return OfferInNextRun(message, record.status());
  if (!record->has_value()) return;
  if (entry.state == EntryState::kForgetting) {
    return core_.backlog.ListNew(message, entry.subscription, nullptr);
  }
  MoveEntry(index, message, row);
}

void Offers::MoveEntry(EntryIndex index, const MessageRef& message, const Progress* row) {
  PendingDelivery& entry = core_.table[index];
  DT_CHECK(entry.id == message.key.id);
  DT_CHECK(entry.state == EntryState::kReady || entry.state == EntryState::kDelayed);
  DT_CHECK(!entry.seen);
  Subscription* const subscription = entry.subscription;
  const Listed listed = subscription->backlog.any()
                            ? core_.backlog.ListedAt(message.key, *subscription)
                            : Listed::kNo;
  if (listed == Listed::kYes) {
    // BacklogReader brings the message back from there. It claims the listing first: an entry at
    // this place without a claim would be delivered again after a crash, as if for the first time.
    ends_->DropStale(index);
    core_.backlog.FallBehind(subscription, message.key);
    return core_.turns.ReadBack(subscription);
  }
  if (subscription->spills_in_flight > 0) {
    // The message may be about to be listed there, which would be just as bad.
    ends_->DropStale(index);
    return core_.backlog.ListNew(message, subscription, row, listed == Listed::kUnknown);
  }
  core_.states.Unpin(index);
  core_.backlog.Unlist(index);
  entry.due_ms = entry.listed_ms = message.key.due_ms;
  entry.bytes = message.bytes;
  if (const auto past = status_->PastOf(message.key, subscription, row); past.ok()) {
    entry.attempts = past->attempts;
    entry.half_failures = row != nullptr ? row->half_failures() : 0;
    entry.suspect = Retries::IsSuspect(row);
    entry.maybe_delivered = past->uncertain;
  }
  if (listed == Listed::kUnknown) entry.maybe_delivered = true;
  entry.progress = entry.progress || row != nullptr;
  entry.spilled = subscription->backlog.behind();  // a listing may be damaged, or in flight
  core_.states.Pin(index);
}

void Offers::EndUnwanted(base::Now now, const MessageRef& message, bool settled) {
  const MessageKey& key = message.key;
  if (ends_->AnyEnding(key.id)) return;
  const auto record = core_.reader.Record(key);
  if (!record.ok()) return OfferInNextRun(message, record.status());
  storage::MessageRecord decoded;
  // The offer is stale, or the record is damaged. A damaged message is left alone.
  if (!record->has_value() || !storage::DecodeMessageRecord(**record, &decoded).ok()) return;
  const Topic& topic = *core_.subscriptions.TopicOf(decoded.header.topic);
  const auto status = status_->StatusOf(now, key, topic, nullptr);
  if (!status.ok()) return OfferInNextRun(message, status.status());
  const auto how = settled ? storage::EndState::kAcked : storage::EndState::kDropped;
  if (absl::Status end =
          ends_->BeginEnd(now, {.key = key,
                                .record = &decoded,
                                .payload_bytes = static_cast<uint32_t>(decoded.payload.size()),
                                .bytes = static_cast<uint32_t>((*record)->size()),
                                .status = &*status,
                                .how = how,
                                .durability = storage::Durability::kBuffered});
      !end.ok()) {
    return core_.reader.Fail(end);
  }
  if (!settled) ++core_.stats.dropped;
  const scheduler::KeyLocks::Name name(key.id);
  core_.key_locks.Acquire(name);
  core_.writes.Then([this, key, name](base::Now then, bool ok) {
    if (ok) ends_->FinishAll(key);
    core_.key_locks.Release(then, name, ok);
  });
}

}  // namespace duetime::delivery
