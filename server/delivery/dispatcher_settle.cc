// SPDX-License-Identifier: Apache-2.0
//
// The part of Dispatcher that ends leases: acks, failed attempts, dead letters.
#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/delivery/dead_letter.h"
#include "server/delivery/dispatcher.h"
#include "server/delivery/lease_token.h"
#include "server/delivery/retry_backoff.h"

namespace duetime::delivery {

using storage::DeadLetterReason;
using storage::Durability;
using storage::EndState;
using storage::MessageRef;
using storage::Progress;

namespace {

// Leases and delays that one step ends: a subscriber that vanishes with a hundred thousand must not
// stop the shard.
constexpr size_t kTimersPerStep = 4000;
constexpr size_t kTimersPerSlice = 200;
// How much longer a lease lasts, at most and at a time, while settlements wait for their turn.
constexpr uint64_t kSettleGraceMaxMs = 1000;
constexpr uint64_t kSettleGraceMs = 100;
// What a dead letter weighs at least: a small one is work, too.
constexpr size_t kLetterBytesMin = 4 << 10;

// Gives the first ones to `settle`, as long as `go_on` says so, and removes them.
template <typename Item, typename GoOn, typename Settle>
void TakeFirst(std::vector<Item>* items, const GoOn& go_on, const Settle& settle) {
  size_t taken = 0;
  while (taken < items->size() && go_on()) settle((*items)[taken++]);
  items->erase(items->begin(), items->begin() + static_cast<ptrdiff_t>(taken));
}

}  // namespace

EntryIndex Dispatcher::FindLease(LeaseToken token) const {
  const auto bits = static_cast<uint64_t>(token);
  if (token != MakeToken(shard_, scheduler_->epoch(), bits)) return kNoEntry;
  const auto it = leases_.find(bits & kLeaseCounterMask);
  // What a deleted subscription has left in flight is over.
  if (it == leases_.end() || table_[it->second].subscription->state.deleting) return kNoEntry;
  return it->second;
}

void Dispatcher::EndLease(EntryIndex index) {
  DueEntry& entry = table_[index];
  DT_CHECK(entry.state == EntryState::kInFlight);
  timers_.Cancel(&entry.timer);
  DT_CHECK_EQ(leases_.erase(entry.lease & kLeaseCounterMask), 1u);
  entry.lease = 0;
  const auto it = streams_.find(entry.stream);
  DT_CHECK(it != streams_.end());
  table_.Unlink(&it->second->in_flight, index);
  DropIfOver(it->second.get());
  --entry.subscription->in_flight;
  --in_flight_;
}

void Dispatcher::Settle(base::Now now, SettleCommand command) {
  const auto waiting = settles_waiting_.find(command.stream);
  if (waiting != settles_waiting_.end()) {
    // Behind what it has said before.
    waiting->second.push_back(std::move(command));
  } else if (!SettleSome(now, &command)) {
    settle_turns_.push_back(command.stream);
    settles_waiting_[command.stream].push_back(std::move(command));
  }
}

void Dispatcher::SettleWaiting(base::Now now) {
  while (!settle_turns_.empty() && settles_left_ > 0 && letters_left_ > 0) {
    const StreamId stream = settle_turns_.front();
    settle_turns_.pop_front();
    std::deque<SettleCommand>& commands = settles_waiting_[stream];
    while (!commands.empty() && SettleSome(now, &commands.front())) commands.pop_front();
    if (!commands.empty()) {
      // The next step is for another one.
      settle_turns_.push_back(stream);
      return;
    }
    settles_waiting_.erase(stream);
  }
}

bool Dispatcher::SettleSome(base::Now now, SettleCommand* command) {
  SettleReply at_once{.stream = command->stream, .settled = {}, .extended = {}, .refused = {}};
  SettleReply ended{.stream = command->stream, .settled = {}, .extended = {}, .refused = {}};
  std::vector<EntryIndex> acked;
  const auto find = [&](LeaseToken token) {
    --settles_left_;
    const EntryIndex index = FindLease(token);
    if (index == kNoEntry) at_once.refused.emplace_back(token, SettleRefusal::kLeaseLost);
    return index;
  };
  const auto room = [this] { return settles_left_ > 0; };
  const auto room_for_letters = [this] { return settles_left_ > 0 && letters_left_ > 0; };
  TakeFirst(&command->acks, room, [&](LeaseToken token) {
    const EntryIndex index = find(token);
    if (index == kNoEntry) return;
    ended.settled.push_back(token);
    acked.push_back(index);
    SettleEntry(now, index, EndState::kAcked, Durability::kBuffered);
  });
  TakeFirst(&command->extends, room, [&](const ExtendItem& extend) {
    const EntryIndex index = find(extend.token);
    if (index == kNoEntry) return;
    at_once.extended.push_back(extend.token);
    Extend(now, index, extend.duration_ms);
  });
  // A failed attempt may be the last one.
  TakeFirst(&command->nacks, room_for_letters, [&](const NackItem& nack) {
    const EntryIndex index = find(nack.token);
    if (index == kNoEntry) return;
    at_once.settled.push_back(nack.token);
    ++stats_->nacked;
    Fail(now, index, Failure::kNacked, nack.delay_ms, nack.reason);
  });
  TakeFirst(&command->dead_letters, room_for_letters, [&](const DeadLetterItem& item) {
    const EntryIndex index = find(item.token);
    if (index == kNoEntry) return;
    if (DeadLetter(now, index, DeadLetterReason::kRejected, item.reason)) {
      ended.settled.push_back(item.token);
    } else {
      at_once.refused.emplace_back(item.token, SettleRefusal::kNoDeadLetterTopic);
    }
  });
  stats_->settle_refused += at_once.refused.size();
  if (!at_once.settled.empty() || !at_once.extended.empty() || !at_once.refused.empty()) {
    effects_->settles.push_back(std::move(at_once));
  }
  if (!ended.settled.empty()) {
    outbox_->Then([this, ended = std::move(ended), acked = std::move(acked)](
                      base::Now, bool accepted) mutable {
      if (accepted) FinishAcks(std::move(ended), acked);
    });
  }
  return command->acks.empty() && command->extends.empty() && command->nacks.empty() &&
         command->dead_letters.empty();
}

void Dispatcher::Extend(base::Now now, EntryIndex index, uint64_t duration_ms) {
  ++stats_->extended;
  DueEntry& entry = table_[index];
  timers_.Cancel(&entry.timer);
  entry.wait_end_mono_ms = now.mono_ms + duration_ms;
  timers_.Add(entry.wait_end_mono_ms, Timer{.index = index, .subscription = {}}, &entry.timer);
}

void Dispatcher::FinishAcks(SettleReply reply, const std::vector<EntryIndex>& acked) {
  stats_->acked += acked.size();
  // Nearly always all of one stream: its credit is returned in one go.
  StreamId stream{};
  int64_t messages = 0;
  int64_t bytes = 0;
  for (const EntryIndex index : acked) {
    const DueEntry& entry = table_[index];
    ++entry.subscription->acked;
    CountSuccess(entry.subscription);
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

void Dispatcher::CountFailure(base::Now now, Subscription* subscription) {
  if (!subscription->brake.OnFailure(now.mono_ms)) return;
  WakeAt(now.mono_ms + FailureBrake::kLookMs, subscription);
}

void Dispatcher::CountSuccess(Subscription* subscription) {
  if (!subscription->brake.OnSuccess()) return;
  // What else it may wait for is found out.
  subscription->throttled = false;
  Enqueue(subscription);
}

// ---- Failed attempts
// ------------------------------------------------------------------------------------------------

void Dispatcher::Fail(base::Now now, EntryIndex index, Failure why,
                      std::optional<uint64_t> delay_ms, absl::string_view text) {
  const DueEntry& entry = table_[index];
  if (entry.subscription->state.deleting) {
    EndLease(index);
    return MakeReady(index);  // and it is released from there
  }
  // What the streams of a former owner fail does not count for the next one.
  const auto stream = streams_.find(entry.stream);
  DT_CHECK(stream != streams_.end());
  if (why != Failure::kStreamEnded && !stream->second->dismissed) {
    CountFailure(now, entry.subscription);
  }
  const RetryPolicy& policy = entry.subscription->state.settings.retry;
  // Where there is no topic for it: better one more attempt than a message that is lost.
  if (policy.max_attempts > 0 && entry.attempts >= policy.max_attempts &&
      DeadLetter(now, index, DeadLetterReason::kMaxAttempts, text)) {
    return;
  }
  Retry(now, index, why, delay_ms.value_or(BackoffMs(policy, entry.attempts, entry.id.low)));
}

void Dispatcher::Retry(base::Now now, EntryIndex index, Failure why, uint64_t delay_ms) {
  DueEntry& entry = table_[index];
  EndLease(index);
  const StreamId stream = entry.stream;
  ++stats_->retried;
  // No memory to wait in: it waits on disk.
  const bool forget = delay_ms > 0 && table_.size() >= limits_.due_max;
  // A place in the backlog that is not that of its due time moves along, or nobody would find it.
  const bool moves = forget || (entry.spilled && entry.listed_ms != entry.due_ms);
  const uint64_t retry_ms = delay_ms > 0 || moves ? now.wall_ms + delay_ms : 0;
  entry.progress = true;
  AddProgress(entry.key(), *entry.subscription,
              {.state = Progress::State::kFailed,
               .listed = moves,
               .attempts = entry.attempts,
               .retry_ms = retry_ms,
               .reason = static_cast<uint8_t>(why)});
  if (moves) SpillAt(index, retry_ms, forget);
  if (!forget) {
    if (delay_ms > 0) {
      MakeDelayed(now, index, delay_ms);
    } else {
      MakeReady(index);
    }
  }
  ReturnCredit(stream, 1, entry.bytes);
}

storage::TopicId Dispatcher::DeadLetterTopic(const Subscription& subscription,
                                             std::string* name) const {
  const SubscriptionSettings& settings = subscription.state.settings;
  const bool own = settings.dead_letter != storage::TopicId{};
  *name = own ? settings.dead_letter_name : subscription.topic->dead_letter_name;
  return own ? settings.dead_letter : subscription.topic->dead_letter;
}

bool Dispatcher::DeadLetter(base::Now now, EntryIndex index, DeadLetterReason why,
                            absl::string_view text) {
  const DueEntry& entry = table_[index];
  Subscription* const subscription = entry.subscription;
  std::string name;
  const storage::TopicId topic = DeadLetterTopic(*subscription, &name);
  if (topic == storage::TopicId{}) {
    ++stats_->dead_letters_refused;
    return false;
  }
  std::optional<std::string> record;
  if (!ReadRecord(entry.key(), &record) || !record.has_value()) return false;
  storage::DeadLetterOrigin origin;
  origin.topic_name = subscription->state.topic_name;
  origin.subscription_name = subscription->state.name;
  origin.id = entry.id;
  origin.attempts = entry.attempts;
  origin.reason = why;
  origin.reason_text = text;
  origin.first_dispatch_ms = entry.dispatch_ms;
  origin.last_dispatch_ms = entry.last_dispatch_ms;
  absl::StatusOr<std::string> letter = MakeDeadLetter(*record, topic, now.wall_ms, origin);
  if (!letter.ok()) return false;  // damaged: it stays where it is
  if (!name.empty()) writer_->PutTopicName(topic, std::move(name));
  storage::MessageHeader header;
  DT_CHECK(storage::DecodeMessageHeader(*letter, &header).ok());
  const MessageRef ref = {
      .key = scheduler_->NewKey(now, entry.id.slot(), now.wall_ms, /*spread_ms=*/0),
      .topic = topic,
      .bytes = static_cast<uint32_t>(letter->size()),
      .flags = header.flags};
  letters_left_ -= std::min(letters_left_, std::max(letter->size(), kLetterBytesMin));
  scheduler_->Put(now, ref, *std::move(letter));
  Learn(index, *record);
  SettleEntry(now, index, EndState::kDeadLettered, Durability::kSynced);
  outbox_->Then([this, index, ref, subscription](base::Now, bool accepted) {
    if (!accepted) return;
    ++stats_->dead_lettered;
    ++subscription->dead_lettered;
    FinishEnd(index);
    scheduler_->OnPut(ref);
  });
  return true;
}

// ---- Time
// -----------------------------------------------------------------------------------------------------------

void Dispatcher::ExpireTimers(base::Now now, bool* more) {
  settles_left_ = kSettlesPerStep;
  letters_left_ = kLetterBytesPerStep;
  SettleWaiting(now);
  if (!settles_waiting_.empty()) *more = true;
  calls_settle_ = std::any_of(settles_waiting_.begin(), settles_waiting_.end(),
                              [this](const auto& item) { return !streams_.contains(item.first); });
  // Clients that settle without end do not stop what time does.
  letters_left_ = std::max(letters_left_, kLetterBytesPerStep / 2);
  CloseStreams(now, more);
  for (size_t ended = 0; ended < kTimersPerStep && letters_left_ > 0; ended += kTimersPerSlice) {
    expired_.clear();
    const bool all = timers_.Advance(now.mono_ms, kTimersPerSlice, &expired_);
    for (const auto& timer : expired_) ExpireTimer(now, timer.entry);
    if (all) return;
  }
  *more = true;
}

wheel::TimerStamp* Dispatcher::StampOf(const Timer& timer) {
  if (timer.index != kNoEntry) return &table_[timer.index].timer;
  Subscription* const subscription = FindSubscription(timer.subscription);
  return subscription == nullptr ? nullptr : &subscription->wake;
}

void Dispatcher::ExpireTimer(base::Now now, const Timer& timer) {
  if (timer.index == kNoEntry) {
    Subscription* const subscription = FindSubscription(timer.subscription);
    if (subscription == nullptr) return;
    return LookAt(now, subscription);
  }
  DueEntry& entry = table_[timer.index];
  if (entry.state == EntryState::kDelayed) {
    --entry.subscription->delayed;
    --delayed_;
    return MakeReady(timer.index);
  }
  DT_CHECK(entry.state == EntryState::kInFlight);
  if ((settles_waiting_.contains(entry.stream) || calls_settle_) &&
      now.mono_ms < entry.wait_end_mono_ms + kSettleGraceMaxMs) {
    // What is to be done may have been said in time.
    timers_.Add(now.mono_ms + kSettleGraceMs, timer, &entry.timer);
    return;
  }
  ++stats_->leases_lost;
  Fail(now, timer.index, Failure::kLeaseLost, std::nullopt, "");
}

}  // namespace duetime::delivery
