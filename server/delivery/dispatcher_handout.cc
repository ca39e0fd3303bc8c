// SPDX-License-Identifier: Apache-2.0
//
// The part of Dispatcher that knows streams, and hands messages to them.
#include <algorithm>
#include <utility>

#include "absl/hash/hash.h"

#include "server/base/check.h"
#include "server/delivery/dispatcher.h"
#include "server/delivery/lease_token.h"

namespace duetime::delivery {

using storage::Durability;
using storage::MessageFlags;

namespace {

// Read-backs started by one Pump: each may read a page from disk.
constexpr size_t kReadBacksPerPump = 4;

// Bytes that are as much work as a message: a step is bounded by both.
constexpr size_t kBytesPerMessage = 4 << 10;

// The smallest turn of a subscription while others wait.
constexpr size_t kTurnMin = 64;

// Leases of a stream that is gone that one step gives back.
constexpr size_t kClosedPerStep = 1000;

}  // namespace

// ---- Streams
// --------------------------------------------------------------------------------------------------------

void Dispatcher::Attach(base::Now now, const AttachCommand& command) {
  DT_CHECK(command.stream != StreamId{});
  if (command.subscription == storage::FirstSubscription(command.topic)) TopicOf(command.topic);
  Subscription* const subscription = FindSubscription(command.subscription);
  // Deleted meanwhile: there is nothing to hand out.
  if (subscription == nullptr || subscription->state.deleting) return;
  std::unique_ptr<Stream>& stream = streams_[command.stream];
  DT_CHECK(stream == nullptr);
  stream = std::make_unique<Stream>();
  stream->id = command.stream;
  stream->subscription = subscription;
  stream->lease_ms = command.lease_ms;
  stream->credit = command.credit;
  ++subscription->streams;
  LookAt(now, subscription);
  MakeWilling(stream.get());
}

void Dispatcher::Detach(const DetachCommand& command) {
  const auto it = streams_.find(command.stream);
  if (it == streams_.end() || !it->second->attached) return;
  Stream* const stream = it->second.get();
  Subscription* const subscription = stream->subscription;
  stream->attached = false;
  if (stream->willing) {
    stream->willing = false;
    subscription->willing.erase(
        std::find(subscription->willing.begin(), subscription->willing.end(), stream));
  }
  --subscription->streams;
  if (stream->in_flight.head == kNoEntry) {
    streams_.erase(it);
  } else if (!command.keep_leases) {
    closing_.push_back(stream->id);
  }
}

void Dispatcher::CloseStreams(base::Now now, bool* more) {
  for (size_t i = 0; i < kClosedPerStep && !closing_.empty() && letters_left_ > 0; ++i) {
    // A clean hand-back: the messages can go to another subscriber at once.
    const StreamId id = closing_.front();
    if (settles_waiting_.contains(id)) {
      // It has said of some of them what is to be done.
      closing_.pop_front();
      closing_.push_back(id);
      continue;
    }
    const auto it = streams_.find(id);
    if (it == streams_.end() || it->second->in_flight.head == kNoEntry) {
      closing_.pop_front();
      continue;
    }
    Stream* const stream = it->second.get();
    const EntryIndex index = stream->in_flight.head;
    // Who goes and gives back what it did not get to has not failed, unless that is how it fails.
    if (!stream->dismissed && table_[index].attempts > 1) CountFailure(now, stream->subscription);
    Fail(now, index, Failure::kStreamEnded, std::nullopt, "");
  }
  if (!closing_.empty()) *more = true;
}

void Dispatcher::DropIfOver(Stream* stream) {
  if (!stream->attached && stream->in_flight.head == kNoEntry) streams_.erase(stream->id);
}

void Dispatcher::MakeWilling(Stream* stream) {
  if (!stream->attached) return;
  if (!stream->willing) {
    stream->willing = true;
    stream->subscription->willing.push_back(stream);
  }
  Enqueue(stream->subscription);
  WantReadBack(stream->subscription);
}

void Dispatcher::Credit(const CreditCommand& command) {
  const auto it = streams_.find(command.stream);
  if (it != streams_.end()) MakeWilling(it->second.get());
}

void Dispatcher::ReturnCredit(StreamId stream, int64_t messages, int64_t bytes) {
  const auto it = streams_.find(stream);
  if (it == streams_.end()) return;
  const uint64_t mask = it->second->credit->Return(messages, bytes);
  const uint64_t self = uint64_t{1} << shard_;
  if ((mask & ~self) != 0) effects_->wakes.push_back({stream, mask & ~self});
  if ((mask & self) != 0) MakeWilling(it->second.get());
}

// ---- Hand-out
// -------------------------------------------------------------------------------------------------------

void Dispatcher::Enqueue(Subscription* subscription) {
  if (subscription->queued || subscription->ready.count == 0 || subscription->willing.empty() ||
      subscription->throttled || subscription->paused()) {
    return;
  }
  subscription->queued = true;
  queue_.push_back(subscription);
}

absl::Status Dispatcher::Pump(base::Now now, size_t budget, bool* more) {
  if (!read_error_.ok()) return read_error_;
  if (stopped_) return absl::OkStatus();
  // Without room they wait in the queue: room comes when something ends, which is an event.
  for (size_t i = 0; i < kReadBacksPerPump && CanReadBack(); ++i) {
    Subscription* const subscription = read_queue_.front();
    read_queue_.pop_front();
    subscription->read_queued = false;
    if (absl::Status status = ReadBack(now, subscription); !status.ok()) return status;
  }
  // However many others make, some are for what turns out to be at its end here.
  letters_left_ = std::max(letters_left_, kLetterBytesPerStep / 4);
  // The more wait the smaller their turns: none waits for several large frames of each other one.
  const size_t turn = std::max(budget / std::max<size_t>(queue_.size(), 1), kTurnMin);
  for (size_t done = 0; done < budget && letters_left_ > 0 && !queue_.empty();) {
    Subscription* const subscription = queue_.front();
    queue_.pop_front();
    subscription->queued = false;
    const size_t left = std::max(budget - done, kTurnMin);
    absl::Status status = Serve(now, subscription, std::min(turn, left), &done);
    if (!status.ok()) return status;
  }
  if (!queue_.empty() || CanReadBack()) *more = true;
  return read_error_;
}

absl::Status Dispatcher::Serve(base::Now now, Subscription* subscription, size_t turn,
                               size_t* done) {
  // Also a turn that comes to nothing costs something.
  ++*done;
  if (subscription->willing.empty() || subscription->paused()) return absl::OkStatus();
  Stream* const stream = subscription->willing.front();
  subscription->willing.pop_front();
  const size_t bytes = TakeReady(now, subscription, stream, turn);
  if (stream->willing) subscription->willing.push_back(stream);
  *done += taken_.size() + bytes / kBytesPerMessage;
  if (!taken_.empty()) {
    if (absl::Status status = SendFrame(now, stream); !status.ok()) return status;
  }
  Enqueue(subscription);
  WantReadBack(subscription);
  return absl::OkStatus();
}

bool Dispatcher::Admit(base::Now now, uint64_t due_ms, Subscription* subscription) {
  constexpr uint64_t kMicros = 1000;
  CatchUp& ramp = subscription->catch_up;
  FailureBrake& brake = subscription->brake;
  PaceClock* const pace = subscription->pace;
  // The ramp is for what piled up, and not for what is on time.
  const bool ramped = ramp.active() && due_ms <= start_.wall_ms;
  if (brake.Take(now.mono_ms)) {
    if ((!ramped || ramp.Take(now.mono_ms, 1) > 0) &&
        (pace == nullptr || pace->Take(now.mono_ms * kMicros, 1) > 0)) {
      return true;
    }
    brake.GiveBack(1);
  }
  uint64_t at_ms = brake.NextMs(now.mono_ms);
  if (ramped) at_ms = std::max(at_ms, ramp.NextMs(now.mono_ms));
  if (pace != nullptr) {
    at_ms = std::max(at_ms, (pace->NextUs(now.mono_ms * kMicros) + kMicros - 1) / kMicros);
  }
  subscription->throttled = true;
  WakeAt(std::max(at_ms, now.mono_ms + 1), subscription);
  return false;
}

size_t Dispatcher::TakeReady(base::Now now, Subscription* subscription, Stream* stream,
                             size_t turn) {
  taken_.clear();
  // An equal share for each stream that can take more, so that the first does not get a whole
  // burst.
  const size_t sharers = subscription->willing.size() + 1;
  const size_t share = (subscription->ready.count + sharers - 1) / sharers;
  const size_t limit = std::min({limits_.frame_messages_max, share, turn});
  size_t bytes = 0;
  while (taken_.size() < limit && bytes < limits_.frame_bytes_max) {
    const EntryIndex index = subscription->ready.head;
    DueEntry& entry = table_[index];
    DT_CHECK(entry.state == EntryState::kReady);
    if (!stream->credit->Take(shard_, entry.bytes)) {
      stream->willing = false;
      break;
    }
    if (!Admit(now, entry.due_ms, subscription)) {
      ReturnCredit(stream->id, 1, entry.bytes);
      break;
    }
    table_.Unlink(&subscription->ready, index);
    --ready_;
    entry.state = EntryState::kTaken;
    bytes += entry.bytes;
    taken_.push_back(index);
  }
  return bytes;
}

absl::Status Dispatcher::SendFrame(base::Now now, Stream* stream) {
  order_.clear();
  keys_.clear();
  for (size_t i = 0; i < taken_.size(); ++i) order_.emplace_back(table_[taken_[i]].key(), i);
  std::sort(order_.begin(), order_.end());  // nearly sorted already: only repeats are not
  for (const auto& [key, position] : order_) keys_.push_back(key);
  if (absl::Status status = store_->MultiGet(shard_, keys_, &values_); !status.ok()) return status;
  DT_CHECK_EQ(values_.size(), keys_.size());
  // Back into the order of delivery.
  std::vector<std::optional<std::string>> records(values_.size());
  for (size_t i = 0; i < order_.size(); ++i) records[order_[i].second] = std::move(values_[i]);

  DeliveryFrame frame{.stream = stream->id, .deliveries = {}};
  frame.deliveries.reserve(taken_.size());
  int64_t gone = 0;
  int64_t gone_bytes = 0;
  for (size_t i = 0; i < taken_.size(); ++i) {
    const EntryIndex index = taken_[i];
    const bool exists = records[i].has_value();
    if (exists) {
      Learn(index, *records[i]);
      if (!HoldBack(now, index, *records[i])) {
        Lease(now, stream, index, *std::move(records[i]), &frame);
        continue;
      }
    }
    ++gone;
    gone_bytes += table_[index].bytes;
    if (exists) continue;
    // Cancelled, settled or moved before it was offered (again).
    if (table_[index].spilled) AddUnspill(table_[index].place(), *table_[index].subscription);
    ReleaseOrder(index);
    Forget(index);
  }
  if (!frame.deliveries.empty()) effects_->frames.push_back(std::move(frame));
  if (gone > 0) {
    stream->subscription->brake.GiveBack(static_cast<size_t>(gone));
    stream->subscription->throttled = false;  // perhaps: found out in its next turn
    ReturnCredit(stream->id, gone, gone_bytes);
  }
  return absl::OkStatus();
}

void Dispatcher::Learn(EntryIndex index, absl::string_view record) {
  DueEntry& entry = table_[index];
  entry.seen = true;
  entry.record_bytes = static_cast<uint32_t>(record.size());
  storage::MessageHeader header;
  absl::string_view head;
  // A damaged record is still handed out, and refused where it is decoded.
  if (!storage::DecodeMessageHeader(record, &header).ok() ||
      !storage::MessageHead(record, &head).ok()) {
    return;
  }
  entry.deliver_ms = header.deliver_ms;
  entry.accept_ms = header.accept_ms;
  entry.payload_bytes = static_cast<uint32_t>(record.size() - head.size());
  // Most have neither.
  const bool keyed = (header.flags & MessageFlags::kKeyed) != 0;
  if (!keyed && !storage::MayBeRevised(head)) return;
  if (!storage::DecodeMessageHead(head, &decoded_).ok()) return;
  details_[index] = {.key = std::string(decoded_.key), .revision = decoded_.revision};
}

bool Dispatcher::HoldBack(base::Now now, EntryIndex index, absl::string_view record) {
  if (TooOld(now, table_[index]) && GiveUp(now, index)) return true;
  // The last attempt was under way when the process ended, or fewer are allowed by now.
  const uint32_t attempts_max = table_[index].subscription->state.settings.retry.max_attempts;
  if (attempts_max > 0 && table_[index].attempts >= attempts_max &&
      DeadLetter(now, index, storage::DeadLetterReason::kMaxAttempts, "")) {
    return true;
  }
  storage::MessageHeader header;
  absl::string_view head;
  constexpr uint8_t kEither = MessageFlags::kExpires | MessageFlags::kOrdered;
  if (!storage::DecodeMessageHeader(record, &header).ok() || (header.flags & kEither) == 0 ||
      !storage::MessageHead(record, &head).ok() ||
      !storage::DecodeMessageHead(head, &decoded_).ok()) {
    return false;
  }
  if (EndIfLate(now, index)) return true;
  if ((header.flags & MessageFlags::kOrdered) == 0) return false;
  return BlockIfHeld(index, decoded_.ordering_key);
}

bool Dispatcher::EndIfLate(base::Now now, EntryIndex index) {
  if (decoded_.ttl_ms == 0 || now.wall_ms <= decoded_.header.deliver_ms + decoded_.ttl_ms) {
    return false;
  }
  if (decoded_.late_policy == storage::LatePolicy::kDeadLetter) {
    return DeadLetter(now, index, storage::DeadLetterReason::kExpired, "");
  }
  if (decoded_.late_policy != storage::LatePolicy::kDrop) return false;
  SettleEntry(now, index, storage::EndState::kExpired, Durability::kBuffered);
  outbox_->Then([this, index](base::Now, bool accepted) {
    if (!accepted) return;
    ++stats_->expired;
    Forget(index);
  });
  return true;
}

bool Dispatcher::BlockIfHeld(EntryIndex index, absl::string_view ordering_key) {
  DueEntry& entry = table_[index];
  // Zero says that there is none.
  entry.order = absl::HashOf(ordering_key) | 1;
  if (entry.subscription->holds.Acquire(entry.order, index)) return false;
  entry.state = EntryState::kBlocked;
  ++blocked_;
  return true;
}

void Dispatcher::Lease(base::Now now, Stream* stream, EntryIndex index, std::string record,
                       DeliveryFrame* frame) {
  DueEntry& entry = table_[index];
  DT_CHECK(entry.state == EntryState::kTaken);
  DT_CHECK_LE(entry.due_ms, now.wall_ms);  // P2: never early
  entry.state = EntryState::kInFlight;
  if (entry.dispatch_ms == 0) entry.dispatch_ms = now.wall_ms;
  entry.last_dispatch_ms = now.wall_ms;
  entry.wait_end_mono_ms = now.mono_ms + stream->lease_ms;
  ++entry.attempts;
  entry.lease = next_lease_++;
  entry.stream = stream->id;
  timers_.Add(entry.wait_end_mono_ms, Timer{.index = index, .subscription = {}}, &entry.timer);
  table_.PushBack(&stream->in_flight, index);
  DT_CHECK(leases_.emplace(entry.lease & kLeaseCounterMask, index).second);
  ++entry.subscription->in_flight;
  ++entry.subscription->delivered;
  ++in_flight_;
  ++stats_->delivered;
  if (entry.attempts > 1) {
    ++stats_->redelivered;
  } else if (entry.deliver_ms != 0 && entry.deliver_ms <= now.wall_ms) {
    const uint64_t late_ms = now.wall_ms - entry.deliver_ms;
    const auto bound =
        std::lower_bound(kLatenessBoundsMs.begin(), kLatenessBoundsMs.end(), late_ms);
    ++stats_->lateness[static_cast<size_t>(bound - kLatenessBoundsMs.begin())];
    stats_->lateness_sum_ms += late_ms;
  }
  frame->deliveries.push_back({.id = entry.id,
                               .token = MakeToken(shard_, scheduler_->epoch(), entry.lease),
                               .attempt = entry.attempts,
                               .maybe_redelivered = entry.attempts > 1 || entry.maybe_delivered,
                               .dispatch_ms = now.wall_ms,
                               .record = std::move(record)});
}

// ---- Time
// -----------------------------------------------------------------------------------------------------------

void Dispatcher::WakeAt(uint64_t mono_ms, Subscription* subscription) {
  if (!subscription->wake.none()) {
    if (subscription->wake_mono_ms <= mono_ms) return;
    timers_.Cancel(&subscription->wake);
  }
  subscription->wake_mono_ms = mono_ms;
  timers_.Add(mono_ms, Timer{.index = kNoEntry, .subscription = subscription->state.id},
              &subscription->wake);
}

void Dispatcher::LookAt(base::Now now, Subscription* subscription) {
  subscription->throttled = false;
  if (subscription->parked.has_value()) {
    if (subscription->parked->due_ms <= now.wall_ms) {
      FallBehind(subscription, *subscription->parked);
    } else {
      WakeAt(now.mono_ms + subscription->parked->due_ms - now.wall_ms, subscription);
    }
  }
  if (subscription->brake.Slowed(now.mono_ms)) {
    WakeAt(now.mono_ms + FailureBrake::kLookMs, subscription);
  }
  Enqueue(subscription);
  WantReadBack(subscription);
}

uint64_t Dispatcher::NextWakeMono() const {
  const uint64_t timer_ms = timers_.NextDue();
  const bool waiting = scheduler_->safe_mark()->held() > 0 || !retaining_.empty();
  return waiting ? std::min(timer_ms, next_spill_mono_ms_) : timer_ms;
}

}  // namespace duetime::delivery
