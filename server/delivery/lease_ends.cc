// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/lease_ends.h"

#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/delivery/dead_letters.h"
#include "server/delivery/delivery_states.h"
#include "server/delivery/message_ends.h"
#include "server/delivery/pacing.h"
#include "server/delivery/retries.h"
#include "server/delivery/streams.h"
#include "server/delivery/subscriptions.h"

namespace duetime::delivery {

using protocol::LeaseToken;
using protocol::SettleCommand;
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

// Passes the first items to `settle` while `go_on` returns true, and removes them.
template <typename Item, typename GoOn, typename Settle>
void TakeFirst(std::vector<Item>* items, const GoOn& go_on, const Settle& settle) {
  size_t taken = 0;
  while (taken < items->size() && go_on()) settle((*items)[taken++]);
  items->erase(items->begin(), items->begin() + static_cast<ptrdiff_t>(taken));
}

}  // namespace

struct LeaseEnds::Batch {
  // `now` is sent at once, `later` when the records are committed.
  protocol::SettleReply now;
  protocol::SettleReply later;
  std::vector<EntryIndex> acked;
};

LeaseEnds::LeaseEnds(const DeliveryParts& parts)
    : writes_(parts.shard.writes),
      effects_(parts.shard.effects),
      stats_(parts.shard.stats),
      reader_(parts.reader),
      table_(parts.table),
      subscriptions_(parts.subscriptions),
      timers_(parts.timers),
      streams_(parts.streams),
      leases_(parts.leases),
      states_(parts.states),
      pacing_(parts.pacing),
      ends_(parts.ends),
      dead_letters_(parts.dead_letters),
      retries_(parts.retries),
      left_(kSettlesPerStep) {
  DT_CHECK(AllSet(writes_, effects_, stats_, reader_, table_, subscriptions_, timers_));
  DT_CHECK(AllSet(streams_, leases_, states_, pacing_, ends_, dead_letters_, retries_));
}

// ---- Settlements

void LeaseEnds::Settle(base::Now now, SettleCommand command) {
  if (const auto it = waiting_.find(command.stream); it != waiting_.end()) {
    DT_CHECK(!it->second.empty());
    // The command waits behind the stream's earlier settlements.
    it->second.push_back(std::move(command));
  } else if (!SettleSome(now, &command)) {
    turns_.push_back(command.stream);
    waiting_[command.stream].push_back(std::move(command));
  }
}

void LeaseEnds::SettleWaiting(base::Now now) {
  DT_CHECK_EQ(turns_.size(), waiting_.size());
  while (!turns_.empty() && left_ > 0 && dead_letters_->has_budget()) {
    const StreamId stream = turns_.front();
    turns_.pop_front();
    std::deque<SettleCommand>& commands = waiting_[stream];
    DT_CHECK(!commands.empty());
    while (!commands.empty() && SettleSome(now, &commands.front())) commands.pop_front();
    if (!commands.empty()) {
      // The next step begins with another stream.
      turns_.push_back(stream);
      return;
    }
    waiting_.erase(stream);
  }
}

bool LeaseEnds::SettleSome(base::Now now, SettleCommand* command) {
  Batch batch;
  batch.now.stream = batch.later.stream = command->stream;
  const auto room = [this] { return left_ > 0; };
  // A failed attempt may be the last one, and then needs a dead letter.
  const auto room_for_letters = [this] { return left_ > 0 && dead_letters_->has_budget(); };
  TakeFirst(&command->begun, room, [&](LeaseToken token) { Begin(now, token, &batch); });
  TakeFirst(&command->acks, room, [&](LeaseToken token) { Ack(now, token, &batch); });
  TakeFirst(&command->extends, room,
            [&](const protocol::ExtendItem& item) { Extend(now, item, &batch); });
  TakeFirst(&command->nacks, room_for_letters,
            [&](const protocol::NackItem& item) { Nack(now, item, &batch); });
  TakeFirst(&command->releases, room,
            [&](const protocol::ReleaseItem& item) { Release(now, item, &batch); });
  TakeFirst(&command->dead_letters, room_for_letters,
            [&](const protocol::DeadLetterItem& item) { Reject(now, item, &batch); });
  Answer(std::move(batch));
  return command->begun.empty() && command->acks.empty() && command->extends.empty() &&
         command->nacks.empty() && command->releases.empty() && command->dead_letters.empty();
}

EntryIndex LeaseEnds::FindLease(LeaseToken token, Batch* batch) {
  DT_CHECK_GT(left_, 0u);
  --left_;
  const EntryIndex index = leases_->Find(token);
  if (index == kNoEntry) {
    batch->now.refused.emplace_back(token, protocol::SettleRefusal::kLeaseLost);
  }
  return index;
}

void LeaseEnds::Begin(base::Now now, LeaseToken token, Batch* batch) {
  const EntryIndex index = FindLease(token, batch);
  if (index == kNoEntry) return;
  batch->now.begun.push_back(token);
  PendingDelivery& entry = (*table_)[index];
  entry.begun = true;
  // The time before the handler's begin is not the handler's.
  const uint64_t lease_ms = streams_->Get(entry.stream)->lease_ms;
  if (now.mono_ms + lease_ms > entry.wait_end_mono_ms) leases_->Extend(now, index, lease_ms);
}

void LeaseEnds::Ack(base::Now now, LeaseToken token, Batch* batch) {
  const EntryIndex index = FindLease(token, batch);
  if (index == kNoEntry) return;
  batch->later.settled.push_back(token);
  batch->acked.push_back(index);
  ends_->BeginSettle(now, index, storage::EndState::kAcked, storage::Durability::kBuffered);
}

void LeaseEnds::Extend(base::Now now, const protocol::ExtendItem& item, Batch* batch) {
  const EntryIndex index = FindLease(item.token, batch);
  if (index == kNoEntry) return;
  batch->now.extended.push_back(item.token);
  leases_->Extend(now, index, item.duration_ms);
  ++stats_->extended;
}

void LeaseEnds::Nack(base::Now now, const protocol::NackItem& item, Batch* batch) {
  const EntryIndex index = FindLease(item.token, batch);
  if (index == kNoEntry) return;
  batch->later.settled.push_back(item.token);
  ++stats_->nacked;
  // The process has outlived the handler.
  (*table_)[index].suspect = false;
  retries_->Fail(now, index, Failure::kNacked, item.delay_ms, item.reason);
}

void LeaseEnds::Release(base::Now now, const protocol::ReleaseItem& item, Batch* batch) {
  const EntryIndex index = FindLease(item.token, batch);
  if (index == kNoEntry) return;
  batch->later.settled.push_back(item.token);
  retries_->Fail(now, index, Failure::kReleased, item.delay_ms, "");
}

void LeaseEnds::Reject(base::Now now, const protocol::DeadLetterItem& item, Batch* batch) {
  const EntryIndex index = FindLease(item.token, batch);
  if (index == kNoEntry) return;
  using Made = DeadLetters::Made;
  const Made made =
      dead_letters_->Make(now, index, storage::DeadLetterReason::kRejected, item.reason);
  if (made == Made::kYes) {
    batch->later.settled.push_back(item.token);
  } else if (reader_->ok()) {  // else the shard stops, and the lease has not ended
    batch->now.refused.emplace_back(item.token, made == Made::kNoMoreHops
                                                    ? protocol::SettleRefusal::kNoMoreHops
                                                    : protocol::SettleRefusal::kNoDeadLetterTopic);
  }
}

void LeaseEnds::Answer(Batch batch) {
  DT_CHECK_LE(batch.acked.size(), batch.later.settled.size());
  protocol::SettleReply& at_once = batch.now;
  stats_->settle_refused += at_once.refused.size();
  if (!at_once.settled.empty() || !at_once.extended.empty() || !at_once.begun.empty() ||
      !at_once.refused.empty()) {
    effects_->settles.push_back(std::move(at_once));
  }
  if (batch.later.settled.empty()) return;
  writes_->Then([this, reply = std::move(batch.later), acked = std::move(batch.acked)](
                    base::Now, bool accepted) mutable {
    if (!accepted) return;
    FinishAcks(acked);
    effects_->settles.push_back(std::move(reply));
  });
}

void LeaseEnds::FinishAcks(const std::vector<EntryIndex>& acked) {
  stats_->acked += acked.size();
  // Nearly always all leases are of one stream, and its credit returns in one call.
  StreamId stream{};
  int64_t messages = 0;
  int64_t bytes = 0;
  for (const EntryIndex index : acked) {
    const PendingDelivery& entry = (*table_)[index];
    DT_CHECK(entry.state == EntryState::kEnding);
    ++entry.subscription->acked;
    pacing_->OnSuccess(entry.subscription);
    if (entry.stream != stream) {
      if (messages > 0) streams_->ReturnCredit(stream, messages, bytes);
      stream = entry.stream;
      messages = bytes = 0;
    }
    ++messages;
    bytes += entry.bytes;
    states_->Remove(index);
  }
  if (messages > 0) streams_->ReturnCredit(stream, messages, bytes);
}

// ---- Streams and time

bool LeaseEnds::Step(base::Now now) {
  left_ = kSettlesPerStep;
  dead_letters_->BeginStep();
  SettleWaiting(now);
  bool more = !waiting_.empty();
  unknown_stream_waits_ = std::any_of(waiting_.begin(), waiting_.end(), [this](const auto& item) {
    return streams_->Find(item.first) == nullptr;
  });
  // Leases and delays keep half of the budget, however much clients settle.
  dead_letters_->KeepBudget(DeadLetters::kBytesPerStep / 2);
  if (GiveBackClosing(now)) more = true;
  for (size_t ended = 0; ended < kTimersPerStep && dead_letters_->has_budget();
       ended += kTimersPerSlice) {
    const bool all =
        timers_->Advance(now.mono_ms, kTimersPerSlice,
                         [&](const DeliveryTimers::Timer& timer) { ExpireTimer(now, timer); });
    if (all) return more;
  }
  return true;
}

bool LeaseEnds::GiveBackClosing(base::Now now) {
  std::deque<StreamId>& closing = streams_->closing();
  for (size_t i = 0; i < kGivenBackPerStep && !closing.empty() && dead_letters_->has_budget();
       ++i) {
    const StreamId id = closing.front();
    if (waiting_.contains(id)) {
      // The stream's settlements come first.
      closing.pop_front();
      closing.push_back(id);
      continue;
    }
    Stream* const stream = streams_->Find(id);
    if (stream == nullptr || stream->in_flight.count == 0) {
      closing.pop_front();
      continue;
    }
    const EntryIndex index = stream->in_flight.head;
    DT_CHECK_NE(index, kNoEntry);
    DT_CHECK((*table_)[index].stream == id);
    GiveBack(now, *stream, index);
  }
  return !closing.empty();
}

void LeaseEnds::GiveBack(base::Now now, const Stream& stream, EntryIndex index) {
  PendingDelivery& entry = (*table_)[index];
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
    Subscription* const subscription = subscriptions_->Find(timer.subscription);
    if (subscription != nullptr) pacing_->CheckAgain(now, subscription);
    return;
  }
  DT_CHECK_GE(now.mono_ms, (*table_)[timer.index].wait_end_mono_ms);
  if ((*table_)[timer.index].state == EntryState::kInFlight) return ExpireLease(now, timer.index);
  states_->TakeDelayed(timer.index);
  states_->MakeReady(timer.index);
}

void LeaseEnds::ExpireLease(base::Now now, EntryIndex index) {
  PendingDelivery& entry = (*table_)[index];
  DT_CHECK(entry.timer.none());
  if (MaySettle(entry) && now.mono_ms < entry.wait_end_mono_ms + kGraceMaxMs) {
    return timers_->Postpone(index, now.mono_ms + kGraceMs);
  }
  ++stats_->leases_lost;
  if (streams_->Get(entry.stream)->reports_begun && !entry.begun) {
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
