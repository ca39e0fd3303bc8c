// SPDX-License-Identifier: Apache-2.0
//
// The part of Dispatcher that ends leases and messages.
#include <utility>

#include "server/base/check.h"
#include "server/delivery/dispatcher.h"
#include "server/delivery/lease_token.h"

namespace duetime::delivery {

using storage::Durability;
using storage::MessageKey;
using storage::TopicId;

namespace {

// Leases and delays that one step ends: a subscriber that vanishes with a hundred thousand must not
// stop the shard.
constexpr size_t kTimersPerStep = 4000;

}  // namespace

EntryIndex Dispatcher::FindLease(LeaseToken token) const {
  const auto bits = static_cast<uint64_t>(token);
  if (token != MakeToken(shard_, scheduler_->epoch(), bits)) return kNoEntry;
  const auto it = leases_.find(bits & kLeaseCounterMask);
  return it == leases_.end() ? kNoEntry : it->second;
}

void Dispatcher::EndLease(EntryIndex index) {
  DueEntry& entry = table_[index];
  DT_CHECK(entry.state == EntryState::kInFlight);
  timers_.Cancel(entry.timer);
  entry.timer = {};
  DT_CHECK_EQ(leases_.erase(entry.lease & kLeaseCounterMask), 1u);
  entry.lease = 0;
  const auto it = streams_.find(entry.stream);
  DT_CHECK(it != streams_.end());
  table_.Unlink(&it->second->in_flight, index);
  --in_flight_;
}

void Dispatcher::Settle(base::Now now, const SettleCommand& command) {
  SettleReply at_once{.stream = command.stream, .settled = {}, .extended = {}, .refused = {}};
  SettleReply acked{.stream = command.stream, .settled = {}, .extended = {}, .refused = {}};
  std::vector<EntryIndex> ended;
  const auto find = [&](LeaseToken token) {
    const EntryIndex index = FindLease(token);
    if (index == kNoEntry) at_once.refused.emplace_back(token, SettleRefusal::kLeaseLost);
    return index;
  };
  for (const LeaseToken token : command.acks) {
    const EntryIndex index = find(token);
    if (index == kNoEntry) continue;
    acked.settled.push_back(token);
    ended.push_back(index);
    BeginEnd(now, index, storage::EndState::kAcked, /*stopped=*/false, Durability::kBuffered);
  }
  for (const NackItem& nack : command.nacks) {
    const EntryIndex index = find(nack.token);
    if (index == kNoEntry) continue;
    at_once.settled.push_back(nack.token);
    ++stats_->nacked;
    GiveBack(now, index, nack.delay_ms);
  }
  for (const ExtendItem& extend : command.extends) {
    const EntryIndex index = find(extend.token);
    if (index == kNoEntry) continue;
    at_once.extended.push_back(extend.token);
    ++stats_->extended;
    DueEntry& entry = table_[index];
    timers_.Cancel(entry.timer);
    entry.lease_end_mono_ms = now.mono_ms + extend.duration_ms;
    entry.timer = timers_.Add(entry.lease_end_mono_ms, Timer{index});
  }
  stats_->settle_refused += at_once.refused.size();
  if (!at_once.settled.empty() || !at_once.extended.empty() || !at_once.refused.empty()) {
    effects_->settles.push_back(std::move(at_once));
  }
  if (ended.empty()) return;
  outbox_->Then(
      [this, acked = std::move(acked), ended = std::move(ended)](base::Now, bool accepted) mutable {
        if (accepted) FinishAcks(std::move(acked), ended);
      });
}

void Dispatcher::FinishAcks(SettleReply reply, const std::vector<EntryIndex>& ended) {
  stats_->acked += ended.size();
  // Nearly always all of one stream: its credit is returned in one go.
  StreamId stream{};
  int64_t messages = 0;
  int64_t bytes = 0;
  for (const EntryIndex index : ended) {
    const DueEntry& entry = table_[index];
    if (entry.stream != stream) {
      if (messages > 0) ReturnCredit(stream, messages, bytes);
      stream = entry.stream;
      messages = bytes = 0;
    }
    ++messages;
    bytes += entry.bytes;
    Forget(index);
  }
  if (messages > 0) ReturnCredit(stream, messages, bytes);
  effects_->settles.push_back(std::move(reply));
}

void Dispatcher::BeginEnd(base::Now now, EntryIndex index, storage::EndState how, bool stopped,
                          Durability durability) {
  TakeOut(index);
  AddEnd(now, index, how, stopped, durability);
}

void Dispatcher::AddEnd(base::Now now, EntryIndex index, storage::EndState how, bool stopped,
                        Durability durability) {
  DueEntry& entry = table_[index];
  DT_CHECK(entry.seen);
  entry.state = EntryState::kEnding;
  storage::Fate fate;
  fate.state = how;
  fate.topic = entry.topic->id;
  fate.attempts = entry.attempts;
  fate.payload_bytes = entry.payload_bytes;
  fate.deliver_ms = entry.deliver_ms;
  fate.accept_ms = entry.accept_ms;
  fate.fire_ms = entry.fire_ms;
  fate.dispatch_ms = entry.dispatch_ms;
  fate.end_ms = now.wall_ms;
  fate.redelivery_stopped = stopped;
  if (const auto details = details_.find(index); details != details_.end()) {
    fate.key = details->second.key;
    fate.revision = details->second.revision;
  }
  if (absl::Status status =
          endings_.Write(entry.key(), entry.record_bytes, entry.topic->fate_retention_ms,
                         std::move(fate), durability);
      !status.ok()) {
    read_error_ = status;
  }
  if (entry.spilled) AddUnspill(entry.key(), *entry.topic);
}

void Dispatcher::BeginMove(EntryIndex index) {
  TakeOut(index);
  DueEntry& entry = table_[index];
  entry.state = EntryState::kEnding;
  if (entry.spilled) AddUnspill(entry.key(), *entry.topic);
}

void Dispatcher::FinishEnd(EntryIndex index) {
  const StreamId stream = table_[index].stream;
  const uint32_t bytes = table_[index].bytes;
  Forget(index);
  if (stream != StreamId{}) ReturnCredit(stream, 1, bytes);
}

void Dispatcher::Unlist(const MessageKey& key, TopicId id) {
  const Topic& topic = *TopicOf(id);
  if (topic.behind) AddUnspill(key, topic);
}

absl::Status Dispatcher::FindUncertainty(const MessageKey& key, TopicId topic_id,
                                         uint32_t* attempts, bool* uncertain) {
  *attempts = 0;
  *uncertain = scheduler_->MaybeDelivered(key);
  Topic* const topic = TopicOf(topic_id);
  if (!topic->behind) return absl::OkStatus();
  const auto entry = store_->GetBacklog(shard_, storage::FirstSubscription(topic_id), key);
  if (!entry.ok()) return entry.status();
  if (!entry->has_value()) return absl::OkStatus();
  if (absl::Status status = ReadRecoveredClaim(topic); !status.ok()) return status;
  // Listed, and not in memory: since it was listed it can only have been handed out by an earlier
  // run that read it back.
  *attempts = (*entry)->attempts;
  *uncertain = (*entry)->maybe_delivered || ClaimedBefore(*topic, key);
  return absl::OkStatus();
}

void Dispatcher::TakeOut(EntryIndex index) {
  DueEntry& entry = table_[index];
  switch (entry.state) {
    case EntryState::kReady:
      table_.Unlink(&entry.topic->ready, index);
      --ready_;
      break;
    case EntryState::kInFlight:
      EndLease(index);
      break;
    case EntryState::kDelayed:
      timers_.Cancel(entry.timer);
      entry.timer = {};
      --delayed_;
      break;
    case EntryState::kForgetting:
      break;
    case EntryState::kFree:
    case EntryState::kEnding:
      DT_CHECK(false);
  }
}

void Dispatcher::Forget(EntryIndex index) {
  DueEntry& entry = table_[index];
  if (entry.held) scheduler_->safe_mark()->Release(entry.due_ms);
  if (!details_.empty()) details_.erase(index);
  Topic* const topic = entry.topic;
  --topic->entries;
  table_.Remove(index);
  scheduler_->NoteProgress();
  WantReadBack(topic);
}

void Dispatcher::GiveBack(base::Now now, EntryIndex index, uint64_t delay_ms) {
  DueEntry& entry = table_[index];
  EndLease(index);
  const StreamId stream = entry.stream;
  if (delay_ms == 0) {
    MakeReady(index);
  } else if (table_.size() > limits_.due_max) {
    // No memory to wait in: on disk it waits its turn instead of its delay.
    SpillEntry(index, /*forget=*/true);
  } else {
    entry.state = EntryState::kDelayed;
    entry.stream = StreamId{};
    entry.timer = timers_.Add(now.mono_ms + delay_ms, Timer{index});
    ++delayed_;
  }
  ReturnCredit(stream, 1, entry.bytes);
}

void Dispatcher::ExpireTimers(base::Now now, bool* more) {
  expired_.clear();
  if (!timers_.Advance(now.mono_ms, kTimersPerStep, &expired_)) *more = true;
  for (const auto& timer : expired_) {
    const EntryIndex index = timer.entry.index;
    DueEntry& entry = table_[index];
    entry.timer = {};
    if (entry.state == EntryState::kDelayed) {
      --delayed_;
      MakeReady(index);
    } else {
      DT_CHECK(entry.state == EntryState::kInFlight);
      ++stats_->leases_lost;
      GiveBack(now, index, 0);
    }
  }
}

}  // namespace duetime::delivery
