// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/hand_out.h"

#include <algorithm>

#include "server/base/check.h"
#include "server/delivery/backlog/backlog.h"
#include "server/delivery/delivery_states.h"
#include "server/delivery/endings/dead_letters.h"
#include "server/delivery/endings/expiry.h"
#include "server/delivery/endings/retention.h"
#include "server/delivery/endings/retries.h"
#include "server/delivery/leases.h"
#include "server/delivery/pace/pacing.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/streams.h"

namespace duetime::delivery {

using storage::MessageFlags;
using storage::MessageRecord;

namespace {

// This many bytes count as one more message in the budget of a step.
constexpr size_t kBytesPerMessage = 4 << 10;

// The smallest turn of a subscription while others wait.
constexpr size_t kTurnMin = 64;

uint64_t BytesOf(const protocol::DeliveryFrame& frame) {
  uint64_t bytes = 0;
  for (const protocol::Delivery& delivery : frame.deliveries) bytes += delivery.record.size();
  return bytes;
}

}  // namespace

HandOut::HandOut(const Core& core, Pacing* pacing, DeadLetters* dead_letters, Retention* retention,
                 Expiry* expiry)
    : core_(core),
      frame_messages_max_(core.limits.frame_messages_max),
      frame_bytes_max_(core.limits.frame_bytes_max),
      pacing_(pacing),
      dead_letters_(dead_letters),
      retention_(retention),
      expiry_(expiry) {
  DT_CHECK_GT(frame_messages_max_, 0u);
  DT_CHECK_GT(frame_bytes_max_, 0u);
}

absl::Status HandOut::Step(base::Now now, size_t budget, bool* more) {
  DT_CHECK_GT(budget, 0u);
  // Keeps some budget for the dead letters that HandOut makes, however many other parts have made.
  dead_letters_->KeepBudget(DeadLetters::kBytesPerStep / 4);
  // Turns are smaller when more subscriptions wait, so that none waits for large frames of all
  // others.
  const size_t turn = std::max(budget / std::max<size_t>(core_.turns.to_serve(), 1), kTurnMin);
  for (size_t done = 0;
       done < budget && dead_letters_->has_budget() && core_.turns.to_serve() > 0;) {
    const size_t left = std::max(budget - done, kTurnMin);
    absl::Status status = Serve(now, core_.turns.NextToServe(), std::min(turn, left), &done);
    if (!status.ok()) return status;
  }
  if (core_.turns.to_serve() > 0) *more = true;
  return absl::OkStatus();
}

absl::Status HandOut::Serve(base::Now now, Subscription* subscription, size_t turn, size_t* done) {
  // A turn costs as much as a message, even if it hands out nothing.
  ++*done;
  std::deque<Stream*>& available = subscription->available;
  if (available.empty() || subscription->paused()) return absl::OkStatus();
  Stream* const stream = available.front();
  DT_CHECK(stream->available);
  DT_CHECK(stream->subscription == subscription);
  if (!Turns::CanServe(*subscription)) return absl::OkStatus();
  if (!core_.streams.HasRoom(stream)) {
    core_.turns.Serve(subscription);
    return absl::OkStatus();
  }
  TakeReady(now, stream, turn, &taken_);
  if (stream->available) {
    DT_CHECK(available.front() == stream);
    available.pop_front();
    available.push_back(stream);
  }
  *done += taken_.entries.size() + taken_.early + taken_.bytes / kBytesPerMessage;
  if (!taken_.entries.empty()) {
    if (absl::Status status = SendFrame(now, stream, taken_.entries); !status.ok()) return status;
  }
  core_.turns.Serve(subscription);
  core_.turns.ReadBack(subscription);
  return absl::OkStatus();
}

void HandOut::TakeReady(base::Now now, Stream* stream, size_t turn, Taken* taken) {
  taken->entries.clear();
  taken->early = 0;
  taken->bytes = 0;
  Subscription* const subscription = stream->subscription;
  // An equal share for each available stream, so that the first does not get all of a burst.
  const size_t sharers = subscription->available.size();
  DT_CHECK_GT(sharers, 0u);
  const size_t share = (subscription->ready.count + sharers - 1) / sharers;
  const size_t limit = std::min({frame_messages_max_, share, turn});
  while (taken->entries.size() + taken->early < limit && taken->bytes < frame_bytes_max_) {
    const PendingDelivery& entry = core_.table[subscription->ready.head];
    if (entry.due_ms > now.wall_ms) {
      // The clock was set back since the message was due (P2). In the backlog it waits for its
      // time, and it holds up neither memory nor the messages behind it.
      core_.backlog.WaitUntilDue(core_.states.TakeReady(subscription));
      ++taken->early;
      continue;
    }
    const bool alone = entry.suspect && stream->reports_begun;
    if (alone && !taken->entries.empty()) return;  // the next turn takes it
    if (!core_.streams.TakeCredit(stream, entry.bytes, alone)) return;
    if (!Pacing::Take(now, entry.due_ms, subscription)) {
      pacing_->Wait(now, entry.due_ms, subscription);
      core_.streams.UntakeCredit(stream, 1, entry.bytes);
      return;
    }
    taken->bytes += entry.bytes;
    taken->entries.push_back(core_.states.TakeReady(subscription));
    if (alone) return;
  }
}

absl::Status HandOut::ReadRecords(const std::vector<EntryIndex>& entries,
                                  std::vector<std::optional<std::string>>* records) {
  order_.clear();
  keys_.clear();
  for (size_t i = 0; i < entries.size(); ++i) order_.emplace_back(core_.table[entries[i]].key(), i);
  std::sort(order_.begin(), order_.end());  // nearly sorted: only retries are out of order
  for (const auto& [key, position] : order_) keys_.push_back(key);
  if (absl::Status status = core_.store.MultiGet(core_.shard, keys_, &values_); !status.ok())
    return status;
  DT_CHECK_EQ(values_.size(), keys_.size());
  records->clear();
  records->resize(values_.size());
  for (size_t i = 0; i < order_.size(); ++i) (*records)[order_[i].second] = std::move(values_[i]);
  return absl::OkStatus();
}

absl::Status HandOut::SendFrame(base::Now now, Stream* stream,
                                const std::vector<EntryIndex>& entries) {
  if (absl::Status status = ReadRecords(entries, &read_); !status.ok()) return status;
  DT_CHECK_EQ(read_.size(), entries.size());
  protocol::DeliveryFrame frame{
      .stream = stream->id, .subscription = stream->subscription->state.id, .deliveries = {}};
  frame.deliveries.reserve(entries.size());
  int64_t held_back = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    const EntryIndex index = entries[i];
    const uint32_t size = core_.table[index].bytes;
    if (!read_[i].has_value()) {
      // A stale offer: the message was cancelled, settled or moved before.
      core_.backlog.Unlist(index);
      core_.states.Remove(index);
    } else {
      core_.table.Learn(index, *read_[i]);
      if (Decide(now, index, *read_[i]) == Verdict::kLease) {
        Lease(now, stream, index, *std::move(read_[i]), &frame);
        continue;
      }
    }
    ++held_back;
    bytes += size;
  }
  DT_CHECK_EQ(frame.deliveries.size() + static_cast<size_t>(held_back), entries.size());
  if (!frame.deliveries.empty()) {
    const uint64_t unsent = BytesOf(frame);
    stream->credit->AddUnsent(unsent);
    frame.charge = protocol::Charge(stream->budget, unsent);
    core_.effects.frames.push_back(std::move(frame));
  }
  if (held_back == 0) return absl::OkStatus();
  Pacing::GiveBack(static_cast<size_t>(held_back), stream->subscription);
  core_.streams.UntakeCredit(stream, held_back, bytes);
  return absl::OkStatus();
}

// ---- Messages that are not for delivery

HandOut::Verdict HandOut::Judge(base::Now now, const PendingDelivery& entry,
                                const std::optional<MessageRecord>& head, Verdict first) {
  switch (first) {
    case Verdict::kTooOld:
      if (Retention::TooOld(now, entry)) return Verdict::kTooOld;
      [[fallthrough]];
    case Verdict::kOutOfAttempts:
      // The policy has changed, or there was no topic for the dead letter.
      if (Retries::OutOfAttempts(entry)) return Verdict::kOutOfAttempts;
      [[fallthrough]];
    case Verdict::kExpired:
      if (head.has_value() && Expiry::Expired(now, *head)) return Verdict::kExpired;
      [[fallthrough]];
    case Verdict::kOrdered:
      if (head.has_value() && (head->header.flags & MessageFlags::kOrdered) != 0) {
        return Verdict::kOrdered;
      }
      [[fallthrough]];
    case Verdict::kLease:
      break;
  }
  return Verdict::kLease;
}

bool HandOut::CarryOut(base::Now now, EntryIndex index, Verdict verdict,
                       const std::optional<MessageRecord>& head) {
  DT_CHECK(core_.table[index].state == EntryState::kTaken);
  // Without a head, a record has neither a lifetime nor an ordering key, or is damaged.
  DT_CHECK(head.has_value() || verdict < Verdict::kExpired);
  switch (verdict) {
    case Verdict::kTooOld:
      return retention_->GiveUp(now, index);
    case Verdict::kOutOfAttempts:
      return dead_letters_->Make(now, index, storage::DeadLetterReason::kMaxAttempts, "") ==
             DeadLetters::Made::kYes;
    case Verdict::kExpired:
      return expiry_->End(now, index, head->late_policy);
    case Verdict::kOrdered:
      return WaitForOrder(index, OrderingKeyLocks::HashOf(head->ordering_key));
    case Verdict::kLease:
      break;
  }
  DT_CHECK(verdict != Verdict::kLease);
  return false;
}

bool HandOut::WaitForOrder(EntryIndex index, uint64_t ordering_key) {
  const auto turn = core_.states.LockOrder(index, ordering_key);
  if (turn == OrderingKeyLocks::Turn::kNoRoom) core_.backlog.AddToRest(index, ordering_key);
  return turn != OrderingKeyLocks::Turn::kHolds;
}

HandOut::Verdict HandOut::Decide(base::Now now, EntryIndex index, absl::string_view record) {
  const std::optional<MessageRecord> head =
      StoreReader::HeadOf(record, MessageFlags::kExpires | MessageFlags::kOrdered);
  Verdict verdict = Judge(now, core_.table[index], head, Verdict::kTooOld);
  while (verdict != Verdict::kLease && !CarryOut(now, index, verdict, head)) {
    const auto next = static_cast<Verdict>(static_cast<uint8_t>(verdict) + 1);
    verdict = Judge(now, core_.table[index], head, next);
  }
  return verdict;
}

// ---- Leases

void HandOut::Lease(base::Now now, Stream* stream, EntryIndex index, std::string record,
                    protocol::DeliveryFrame* frame) {
  const protocol::LeaseToken token = core_.leases.Begin(now, stream, index);
  const PendingDelivery& entry = core_.table[index];
  DT_CHECK_GT(entry.attempts, 0u);
  CountDelivery(now, entry);
  frame->deliveries.push_back({.id = entry.id,
                               .token = token,
                               .attempt = entry.attempts,
                               .maybe_redelivered = entry.attempts > 1 || entry.maybe_delivered,
                               .dispatch_ms = now.wall_ms,
                               .record = std::move(record),
                               .confirm_begun = entry.suspect && stream->reports_begun});
}

void HandOut::CountDelivery(base::Now now, const PendingDelivery& entry) {
  ++entry.subscription->delivered;
  ++core_.stats.delivered;
  if (entry.attempts > 1) {
    ++core_.stats.redelivered;
  } else if (entry.deliver_ms != 0 && entry.deliver_ms <= now.wall_ms) {
    const uint64_t late_ms = now.wall_ms - entry.deliver_ms;
    const auto bound = std::lower_bound(protocol::kLatenessBoundsMs.begin(),
                                        protocol::kLatenessBoundsMs.end(), late_ms);
    const auto bucket = static_cast<size_t>(bound - protocol::kLatenessBoundsMs.begin());
    auto& of_subscription = entry.subscription->lateness;
    if (of_subscription == nullptr) of_subscription = std::make_unique<protocol::LatenessCounts>();
    ++(*of_subscription)[bucket];
    ++core_.stats.lateness[bucket];
    core_.stats.lateness_sum_ms += late_ms;
  }
}

}  // namespace duetime::delivery
