// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/endings/lease_ends.h"

#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/delivery/delivery_states.h"
#include "server/delivery/endings/dead_letters.h"
#include "server/delivery/endings/message_ends.h"
#include "server/delivery/endings/retries.h"
#include "server/delivery/pace/pacing.h"
#include "server/delivery/streams.h"
#include "server/delivery/subscriptions/subscriptions.h"

namespace duetime::delivery {

using protocol::LeaseToken;
using protocol::SettleAction;
using protocol::SettleCommand;
using protocol::Settlement;
using protocol::StreamId;

namespace {

// Leases of ended streams that one step gives back.
constexpr size_t kGivenBackPerStep = 1000;
// Leases and delays that one step ends.
constexpr size_t kTimersPerStep = 4000;
constexpr size_t kTimersPerSlice = 200;
// The most that a lease is prolonged while settlements wait, and how much at a time.
constexpr uint64_t kGraceMaxMs = 1000;
constexpr uint64_t kGraceMs = 100;

// A failed attempt may be the last one, and then needs a dead letter.
bool MayNeedLetter(SettleAction action) {
  return action == SettleAction::kNack || action == SettleAction::kDeadLetter;
}

}  // namespace

struct LeaseEnds::Batch {
  // `now` is sent at once, `later` when the records are committed.
  protocol::SettleReply now;
  protocol::SettleReply later;
  std::vector<EntryIndex> acked;
  bool may_wait = false;
};

LeaseEnds::LeaseEnds(const Core& core, Pacing* pacing, MessageEnds* ends, DeadLetters* dead_letters,
                     Retries* retries)
    : core_(core),
      pacing_(pacing),
      ends_(ends),
      dead_letters_(dead_letters),
      retries_(retries),
      left_(kSettlesPerStep) {}

// ---- Settlements

void LeaseEnds::Settle(base::Now now, SettleCommand command) {
  const StreamId stream = command.stream;
  Waiting waiting{.command = std::move(command)};
  if (const auto it = waiting_.find(stream); it != waiting_.end()) {
    DT_CHECK(!it->second.empty());
    // The command waits behind the stream's earlier settlements.
    it->second.push_back(std::move(waiting));
  } else if (!SettleSome(now, &waiting)) {
    stream_turns_.push_back(stream);
    waiting_[stream].push_back(std::move(waiting));
  }
}

void LeaseEnds::SettleWaiting(base::Now now) {
  DT_CHECK_EQ(stream_turns_.size(), waiting_.size());
  while (!stream_turns_.empty() && left_ > 0 && dead_letters_->has_budget()) {
    const StreamId stream = stream_turns_.front();
    stream_turns_.pop_front();
    std::deque<Waiting>& commands = waiting_[stream];
    DT_CHECK(!commands.empty());
    while (!commands.empty() && SettleSome(now, &commands.front())) commands.pop_front();
    if (!commands.empty()) {
      // The next step begins with another stream.
      stream_turns_.push_back(stream);
      return;
    }
    waiting_.erase(stream);
  }
}

bool LeaseEnds::SettleSome(base::Now now, Waiting* waiting) {
  const SettleCommand& command = waiting->command;
  Batch batch;
  batch.now.stream = batch.later.stream = command.stream;
  batch.may_wait = command.may_wait;
  size_t& begun = waiting->begun;
  while (begun < command.begun.size() && left_ > 0) Begin(now, command.begun[begun++], &batch);
  size_t& settled = waiting->settled;
  for (; settled < command.settlements.size() && left_ > 0; ++settled) {
    const Settlement& settlement = command.settlements[settled];
    if (MayNeedLetter(settlement.action) && !dead_letters_->has_budget()) break;
    Settle(now, settlement, &batch);
  }
  Answer(std::move(batch));
  return begun == command.begun.size() && settled == command.settlements.size();
}

EntryIndex LeaseEnds::FindLease(LeaseToken token, Batch* batch) {
  DT_CHECK_GT(left_, 0u);
  --left_;
  const EntryIndex index = core_.leases.Find(token);
  if (index == kNoEntry) {
    ++core_.stats.settle_refused;
    batch->now.refused.push_back({.token = token});
  }
  return index;
}

void LeaseEnds::Begin(base::Now now, LeaseToken token, Batch* batch) {
  const EntryIndex index = FindLease(token, batch);
  if (index == kNoEntry) return;
  batch->now.begun.push_back(token);
  PendingDelivery& entry = core_.table[index];
  entry.begun = true;
  // The time before the handler's begin is not the handler's.
  const uint64_t lease_ms = core_.streams.Get(entry.stream)->lease_ms;
  if (now.mono_ms + lease_ms > entry.wait_end_mono_ms) core_.leases.Extend(now, index, lease_ms);
}

void LeaseEnds::Settle(base::Now now, const Settlement& settlement, Batch* batch) {
  const EntryIndex index = FindLease(settlement.token, batch);
  if (index == kNoEntry) return;
  switch (settlement.action) {
    case SettleAction::kAck:
      batch->later.settled.push_back(settlement.token);
      batch->acked.push_back(index);
      ends_->BeginSettle(now, index, storage::EndState::kAcked, storage::Durability::kBuffered);
      return;
    case SettleAction::kNack:
      batch->later.settled.push_back(settlement.token);
      ++core_.stats.nacked;
      // The process has outlived the handler.
      core_.table[index].suspect = false;
      return retries_->Fail(now, index, Failure::kNacked, settlement.ms, settlement.reason);
    case SettleAction::kExtend:
      DT_CHECK(settlement.ms.has_value());
      batch->now.extended.push_back(settlement.token);
      core_.leases.Extend(now, index, *settlement.ms);
      ++core_.stats.extended;
      return;
    case SettleAction::kDeadLetter:
      return Reject(now, index, settlement, batch);
    case SettleAction::kRelease:
      batch->later.settled.push_back(settlement.token);
      return retries_->Fail(now, index, Failure::kReleased, settlement.ms.value_or(0), "");
  }
}

void LeaseEnds::Reject(base::Now now, EntryIndex index, const Settlement& settlement,
                       Batch* batch) {
  using Made = DeadLetters::Made;
  const Made made =
      dead_letters_->Make(now, index, storage::DeadLetterReason::kRejected, settlement.reason);
  if (made == Made::kYes) return batch->later.settled.push_back(settlement.token);
  if (!core_.reader.ok()) return;  // the shard stops, and the lease has not ended
  protocol::RefusedSettlement refused{.token = settlement.token,
                                      .refusal = protocol::SettleRefusal::kNoDeadLetterTopic};
  if (made == Made::kNoMoreHops) refused.refusal = protocol::SettleRefusal::kNoMoreHops;
  if (made == Made::kNoTopic && !settlement.again) {
    refused.topic = core_.table[index].subscription->state.topic;
    refused.reason = settlement.reason;
  } else {
    ++core_.stats.settle_refused;
    if (made == Made::kNoTopic) ++core_.stats.dead_letters_refused;
  }
  batch->now.refused.push_back(std::move(refused));
}

void LeaseEnds::Answer(Batch batch) {
  DT_CHECK_LE(batch.acked.size(), batch.later.settled.size());
  protocol::SettleReply& at_once = batch.now;
  if (!at_once.settled.empty() || !at_once.extended.empty() || !at_once.begun.empty() ||
      !at_once.refused.empty()) {
    core_.effects.settles.push_back(std::move(at_once));
  }
  if (batch.later.settled.empty()) return;
  auto finish = [this, reply = std::move(batch.later), acked = std::move(batch.acked)](
                    base::Now, bool accepted) mutable {
    if (!accepted) return;
    FinishAcks(acked);
    core_.effects.settles.push_back(std::move(reply));
  };
  if (batch.may_wait) {
    core_.writes.ThenAtLeisure(std::move(finish));
  } else {
    core_.writes.Then(std::move(finish));
  }
}

void LeaseEnds::FinishAcks(const std::vector<EntryIndex>& acked) {
  core_.stats.acked += acked.size();
  // Nearly always all leases are of one stream, and its credit returns in one call.
  StreamId stream{};
  int64_t messages = 0;
  int64_t bytes = 0;
  for (const EntryIndex index : acked) {
    const PendingDelivery& entry = core_.table[index];
    DT_CHECK(entry.state == EntryState::kEnding);
    ++entry.subscription->acked;
    pacing_->OnSuccess(entry.subscription);
    if (entry.stream != stream) {
      if (messages > 0) core_.streams.ReturnCredit(stream, messages, bytes);
      stream = entry.stream;
      messages = bytes = 0;
    }
    ++messages;
    bytes += entry.bytes;
    core_.states.Remove(index);
  }
  if (messages > 0) core_.streams.ReturnCredit(stream, messages, bytes);
}

// ---- Streams and time

bool LeaseEnds::Step(base::Now now) {
  left_ = kSettlesPerStep;
  dead_letters_->BeginStep();
  SettleWaiting(now);
  bool more = !waiting_.empty();
  unknown_stream_waits_ = std::any_of(waiting_.begin(), waiting_.end(), [this](const auto& item) {
    return core_.streams.Find(item.first) == nullptr;
  });
  // Leases and delays keep half of the budget, however much clients settle.
  dead_letters_->KeepBudget(DeadLetters::kBytesPerStep / 2);
  if (GiveBackClosing(now)) more = true;
  for (size_t ended = 0; ended < kTimersPerStep && dead_letters_->has_budget();
       ended += kTimersPerSlice) {
    const bool all =
        core_.timers.Advance(now.mono_ms, kTimersPerSlice,
                             [&](const DeliveryTimers::Timer& timer) { ExpireTimer(now, timer); });
    if (all) return more;
  }
  return true;
}

bool LeaseEnds::GiveBackClosing(base::Now now) {
  std::deque<StreamId>& closing = core_.streams.closing();
  for (size_t i = 0; i < kGivenBackPerStep && !closing.empty() && dead_letters_->has_budget();
       ++i) {
    const StreamId id = closing.front();
    if (waiting_.contains(id)) {
      // The stream's settlements come first.
      closing.pop_front();
      closing.push_back(id);
      continue;
    }
    Stream* const stream = core_.streams.Find(id);
    if (stream == nullptr || stream->in_flight.count == 0) {
      closing.pop_front();
      continue;
    }
    const EntryIndex index = stream->in_flight.head;
    DT_CHECK_NE(index, kNoEntry);
    DT_CHECK(core_.table[index].stream == id);
    GiveBack(now, *stream, index);
  }
  return !closing.empty();
}

void LeaseEnds::GiveBack(base::Now now, const Stream& stream, EntryIndex index) {
  PendingDelivery& entry = core_.table[index];
  // The list is in the order of delivery, so the last entries are those that did not leave the
  // server.
  const bool left = !stream.unsent && stream.in_flight.count > stream.not_received;
  if (stopped_ || stream.dismissed || !left) return retries_->TakeBack(now, index);
  if (stream.reports_begun) {
    // The last reports may have been lost with the stream.
    entry.suspect = entry.suspect || stream.broke;
    if (!entry.begun) return retries_->Fail(now, index, Failure::kNotBegun, std::nullopt, "");
    pacing_->OnFailure(now, stream.subscription);
    return retries_->Fail(now, index, Failure::kBegunStreamEnded, std::nullopt, "");
  }
  // The first attempt of a message does not count against the subscription, because its handler may
  // never have started. A later attempt counts, because the message may have ended the stream.
  if (entry.attempts > 1) pacing_->OnFailure(now, stream.subscription);
  retries_->Fail(now, index, Failure::kStreamEnded, std::nullopt, "");
}

void LeaseEnds::ExpireTimer(base::Now now, const DeliveryTimers::Timer& timer) {
  if (timer.index == kNoEntry) {
    Subscription* const subscription = core_.subscriptions.Find(timer.subscription);
    if (subscription != nullptr) pacing_->CheckAgain(now, subscription);
    return;
  }
  DT_CHECK_GE(now.mono_ms, core_.table[timer.index].wait_end_mono_ms);
  if (core_.table[timer.index].state == EntryState::kInFlight) return ExpireLease(now, timer.index);
  core_.states.TakeDelayed(timer.index);
  core_.states.MakeReady(timer.index);
}

void LeaseEnds::ExpireLease(base::Now now, EntryIndex index) {
  PendingDelivery& entry = core_.table[index];
  DT_CHECK(entry.timer.none());
  if (MaySettle(entry) && now.mono_ms < entry.wait_end_mono_ms + kGraceMaxMs) {
    return core_.timers.Postpone(index, now.mono_ms + kGraceMs);
  }
  ++core_.stats.leases_lost;
  if (core_.streams.Get(entry.stream)->reports_begun && !entry.begun) {
    // A subscriber that works would have reported or released it. The handler may have stopped the
    // subscriber before the report left.
    entry.suspect = true;
    return retries_->Fail(now, index, Failure::kNotBegun, std::nullopt, "");
  }
  retries_->Fail(now, index, Failure::kLeaseLost, std::nullopt, "");
}

bool LeaseEnds::MaySettle(const PendingDelivery& entry) const {
  return unknown_stream_waits_ || waiting_.contains(entry.stream);
}

}  // namespace duetime::delivery
