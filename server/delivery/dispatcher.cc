// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/dispatcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/delivery/lease_token.h"
#include "storage/message_record.h"

namespace duetime::delivery {

using storage::Durability;
using storage::MessageId;
using storage::MessageKey;
using storage::MessageRef;
using storage::Record;
using storage::RecordType;
using storage::TopicId;

namespace {

// Read-backs started by one Pump: each may read a page from disk.
constexpr size_t kReadBacksPerPump = 4;

}  // namespace

Dispatcher::Dispatcher(const ShardParts& parts, scheduler::Scheduler* scheduler)
    : shard_(parts.shard),
      limits_(*parts.limits),
      store_(parts.store),
      outbox_(parts.outbox),
      latches_(parts.latches),
      scheduler_(scheduler),
      effects_(parts.effects),
      stats_(parts.stats),
      occurrences_(parts.occurrences),
      endings_(parts.shard, parts.store, parts.writer, parts.latches) {
  DT_CHECK_LT(shard_, kShardCountMax);
}

absl::Status Dispatcher::Recover() {
  const auto subscriptions = store_->BacklogSubscriptions(shard_);
  if (!subscriptions.ok()) return subscriptions.status();
  // There are none but the first ones of their topics.
  for (const storage::SubscriptionId id : *subscriptions) {
    FallBehind(TopicOf(TopicId{static_cast<uint32_t>(id)}), MessageKey{});
  }
  return absl::OkStatus();
}

Topic* Dispatcher::TopicOf(TopicId id) {
  std::unique_ptr<Topic>& topic = topics_[id];
  if (topic == nullptr) {
    topic = std::make_unique<Topic>();
    topic->id = id;
    topic->fate_retention_ms = limits_.fate_retention_ms;
  }
  return topic.get();
}

void Dispatcher::SetTopic(const TopicCommand& command) {
  TopicOf(command.topic)->fate_retention_ms = command.fate_retention_ms;
}

// ---- Due
// ------------------------------------------------------------------------------------------------------------

bool Dispatcher::FitsInMemory(const Topic& topic) const {
  if (topic.behind) return false;  // behind what is already on disk
  if (topic.streams == 0 && topic.entries >= limits_.due_idle_max) return false;
  if (table_.size() + reading_ < limits_.due_max) return true;
  // Memory is full of other topics: a topic that is served keeps a small share, up to a second
  // limit.
  return topic.streams > 0 && topic.entries < limits_.due_idle_max && RoomToReadBack() > 0;
}

void Dispatcher::OnDue(base::Now now, const MessageRef& message) {
  DT_CHECK_LE(message.key.due_ms, now.wall_ms);
  // Being cancelled or moved: what comes of it will be offered anew.
  if (latches_->Held(message.key.id)) return;
  Topic* const topic = TopicOf(message.topic);
  if (const EntryIndex index = table_.Find(message.key.id); index != kNoEntry) {
    OfferAgain(index, message, topic);
    return;
  }
  if (topic->behind && (topic->forgot_delivered || scheduler_->MayRepeat(message.key))) {
    bool listed = false;
    if (absl::Status status = InBacklog(message, topic, &listed); !status.ok()) {
      read_error_ = status;
      return;
    }
    if (listed) return;  // it will be read back from there, with its attempts
  }
  if ((message.flags & storage::MessageFlags::kRecurs) != 0 &&
      !occurrences_->OnOccurrenceDue(now, message)) {
    return;
  }
  ++stats_->fired;
  if (!FitsInMemory(*topic)) {
    SpillNew(message, topic);
    return;
  }
  const EntryIndex index = AddEntry(message, topic);
  DueEntry& entry = table_[index];
  entry.maybe_delivered = scheduler_->MaybeDelivered(message.key);
  entry.fire_ms = now.wall_ms;
  entry.held = true;
  scheduler_->safe_mark()->Hold(message.key.due_ms, index);
  MakeReady(index);
}

void Dispatcher::OfferAgain(EntryIndex index, const MessageRef& message, Topic* topic) {
  DueEntry& entry = table_[index];
  if (entry.due_ms == message.key.due_ms || entry.seen || entry.state == EntryState::kEnding) {
    return;  // offered twice, or an echo of the time before it was moved
  }
  // One of the two is such an echo. The store knows which.
  const auto record = store_->Get(shard_, message.key);
  if (!record.ok()) {
    read_error_ = record.status();
    return;
  }
  if (!record->has_value()) return;
  if (entry.state == EntryState::kForgetting) {
    SpillNew(message, topic);
    return;
  }
  DT_CHECK(entry.state == EntryState::kReady);
  if (entry.held) scheduler_->safe_mark()->Release(entry.due_ms);
  if (entry.spilled) AddUnspill(entry.key(), *topic);
  entry.due_ms = message.key.due_ms;
  entry.bytes = message.bytes;
  if (absl::Status status =
          FindUncertainty(message.key, topic->id, &entry.attempts, &entry.maybe_delivered);
      !status.ok()) {
    read_error_ = status;
  }
  entry.spilled = topic->behind;  // it may be listed there
  entry.held = true;
  scheduler_->safe_mark()->Hold(entry.due_ms, index);
}

EntryIndex Dispatcher::AddEntry(const MessageRef& message, Topic* topic) {
  const EntryIndex index = table_.Insert(message.key);
  DueEntry& entry = table_[index];
  entry.topic = topic;
  entry.bytes = message.bytes;
  ++topic->entries;
  return index;
}

void Dispatcher::MakeReady(EntryIndex index) {
  DueEntry& entry = table_[index];
  entry.state = EntryState::kReady;
  entry.stream = StreamId{};
  table_.PushBack(&entry.topic->ready, index);
  ++ready_;
  Enqueue(entry.topic);
}

void Dispatcher::Enqueue(Topic* topic) {
  if (topic->queued || topic->ready.count == 0 || topic->willing.empty()) return;
  topic->queued = true;
  queue_.push_back(topic);
}

// ---- Streams
// --------------------------------------------------------------------------------------------------------

void Dispatcher::Attach(const AttachCommand& command) {
  DT_CHECK(command.stream != StreamId{});
  std::unique_ptr<Stream>& stream = streams_[command.stream];
  DT_CHECK(stream == nullptr);
  stream = std::make_unique<Stream>();
  stream->id = command.stream;
  stream->topic = TopicOf(command.topic);
  stream->lease_ms = command.lease_ms;
  stream->credit = command.credit;
  ++stream->topic->streams;
  MakeWilling(stream.get());
}

void Dispatcher::Detach(base::Now now, const DetachCommand& command) {
  const auto it = streams_.find(command.stream);
  if (it == streams_.end()) return;
  Stream* const stream = it->second.get();
  Topic* const topic = stream->topic;
  // A clean hand-back: the messages can go to another subscriber at once.
  while (stream->in_flight.head != kNoEntry) GiveBack(now, stream->in_flight.head, 0);
  if (stream->willing) {
    topic->willing.erase(std::find(topic->willing.begin(), topic->willing.end(), stream));
  }
  --topic->streams;
  streams_.erase(it);
}

void Dispatcher::MakeWilling(Stream* stream) {
  if (!stream->willing) {
    stream->willing = true;
    stream->topic->willing.push_back(stream);
  }
  Enqueue(stream->topic);
  WantReadBack(stream->topic);
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
  if ((mask & self) != 0) MakeWilling(it->second.get());
  if ((mask & ~self) != 0) effects_->wakes.push_back({stream, mask & ~self});
}

// ---- Hand-out
// -------------------------------------------------------------------------------------------------------

absl::Status Dispatcher::Pump(base::Now now, size_t budget, bool* more) {
  if (!read_error_.ok()) return read_error_;
  if (stopped_) return absl::OkStatus();
  // Without room they wait in the queue: room comes when something ends, which is an event.
  for (size_t i = 0; i < kReadBacksPerPump && CanReadBack(); ++i) {
    Topic* const topic = read_queue_.front();
    read_queue_.pop_front();
    topic->read_queued = false;
    if (absl::Status status = ReadBack(now, topic); !status.ok()) return status;
  }
  for (size_t served = 0; served < budget && !queue_.empty(); ++served) {
    Topic* const topic = queue_.front();
    queue_.pop_front();
    topic->queued = false;
    if (absl::Status status = ServeTopic(now, topic, &served); !status.ok()) return status;
  }
  if (!queue_.empty() || CanReadBack()) *more = true;
  return absl::OkStatus();
}

absl::Status Dispatcher::ServeTopic(base::Now now, Topic* topic, size_t* served) {
  if (topic->willing.empty()) return absl::OkStatus();
  Stream* const stream = topic->willing.front();
  topic->willing.pop_front();
  const size_t taken = TakeReady(topic, stream);
  if (stream->willing) topic->willing.push_back(stream);
  *served += taken;
  if (taken > 0) {
    if (absl::Status status = SendFrame(now, stream); !status.ok()) return status;
  }
  Enqueue(topic);
  WantReadBack(topic);
  return absl::OkStatus();
}

size_t Dispatcher::TakeReady(Topic* topic, Stream* stream) {
  taken_.clear();
  // An equal share for each stream that can take more, so that the first does not get a whole
  // burst.
  const size_t sharers = topic->willing.size() + 1;
  const size_t share = (topic->ready.count + sharers - 1) / sharers;
  const size_t limit = std::min(limits_.frame_messages_max, share);
  size_t bytes = 0;
  while (taken_.size() < limit && bytes < limits_.frame_bytes_max) {
    const EntryIndex index = topic->ready.head;
    DueEntry& entry = table_[index];
    DT_CHECK(entry.state == EntryState::kReady);
    if (!stream->credit->Take(shard_, entry.bytes)) {
      stream->willing = false;
      break;
    }
    table_.Unlink(&topic->ready, index);
    --ready_;
    bytes += entry.bytes;
    taken_.push_back(index);
  }
  return taken_.size();
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
      if (!ExpireIfLate(now, index, *records[i])) {
        Lease(now, stream, index, *std::move(records[i]), &frame);
        continue;
      }
    }
    ++gone;
    gone_bytes += table_[index].bytes;
    if (exists) continue;
    // Cancelled, settled or moved before it was offered (again).
    if (table_[index].spilled) AddUnspill(table_[index].key(), *table_[index].topic);
    Forget(index);
  }
  if (!frame.deliveries.empty()) effects_->frames.push_back(std::move(frame));
  if (gone > 0) ReturnCredit(stream->id, gone, gone_bytes);
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
  const bool keyed = (header.flags & storage::MessageFlags::kKeyed) != 0;
  if (!keyed && !storage::MayBeRevised(head)) return;
  if (!storage::DecodeMessageHead(head, &decoded_).ok()) return;
  details_[index] = {.key = std::string(decoded_.key), .revision = decoded_.revision};
}

bool Dispatcher::ExpireIfLate(base::Now now, EntryIndex index, absl::string_view record) {
  storage::MessageHeader header;
  absl::string_view head;
  if (!storage::DecodeMessageHeader(record, &header).ok() ||
      (header.flags & storage::MessageFlags::kExpires) == 0 ||
      !storage::MessageHead(record, &head).ok() ||
      !storage::DecodeMessageHead(head, &decoded_).ok()) {
    return false;
  }
  if (decoded_.late_policy != storage::LatePolicy::kDrop ||
      now.wall_ms <= decoded_.header.deliver_ms + decoded_.ttl_ms) {
    return false;
  }
  // It was taken from the ready list already.
  AddEnd(now, index, storage::EndState::kExpired, /*stopped=*/false, Durability::kBuffered);
  outbox_->Then([this, index](base::Now, bool accepted) {
    if (!accepted) return;
    ++stats_->expired;
    Forget(index);
  });
  return true;
}

void Dispatcher::Lease(base::Now now, Stream* stream, EntryIndex index, std::string record,
                       DeliveryFrame* frame) {
  DueEntry& entry = table_[index];
  DT_CHECK(entry.state == EntryState::kReady);
  DT_CHECK_LE(entry.due_ms, now.wall_ms);  // P2: never early
  entry.state = EntryState::kInFlight;
  if (entry.dispatch_ms == 0) entry.dispatch_ms = now.wall_ms;
  entry.lease_end_mono_ms = now.mono_ms + stream->lease_ms;
  ++entry.attempts;
  entry.lease = next_lease_++;
  entry.stream = stream->id;
  entry.timer = timers_.Add(now.mono_ms + stream->lease_ms, Timer{index});
  table_.PushBack(&stream->in_flight, index);
  DT_CHECK(leases_.emplace(entry.lease & kLeaseCounterMask, index).second);
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

uint64_t Dispatcher::NextWakeMono() const {
  const uint64_t timer_ms = timers_.NextDue();
  const bool waiting = scheduler_->safe_mark()->held() > 0 || !not_due_.empty();
  return waiting ? std::min(timer_ms, next_spill_mono_ms_) : timer_ms;
}

// ---- For the outside
// ------------------------------------------------------------------------------------------------

void Dispatcher::FillStats(ShardStats* stats) const {
  stats->due_ready = ready_;
  stats->in_flight = in_flight_;
  stats->delayed = delayed_;
  stats->streams = streams_.size();
  stats->topics_behind = behind_;
}

void Dispatcher::CheckInvariants() const {
  timers_.CheckInvariants();
  size_t ready = 0;
  size_t in_flight = 0;
  size_t delayed = 0;
  table_.ForEach([&](EntryIndex index, const DueEntry& entry) {
    DT_CHECK(entry.topic != nullptr);
    switch (entry.state) {
      case EntryState::kReady:
        ++ready;
        break;
      case EntryState::kInFlight: {
        ++in_flight;
        DT_CHECK_GT(entry.attempts, 0u);
        const auto lease = leases_.find(entry.lease & kLeaseCounterMask);
        DT_CHECK(lease != leases_.end());
        DT_CHECK_EQ(lease->second, index);
        DT_CHECK(streams_.contains(entry.stream));
        break;
      }
      case EntryState::kDelayed:
        ++delayed;
        break;
      case EntryState::kEnding:
      case EntryState::kForgetting:
        break;
      case EntryState::kFree:
        DT_CHECK(false);
    }
    DT_CHECK(entry.held || entry.spilled || entry.state == EntryState::kEnding);
  });
  DT_CHECK_EQ(ready, ready_);
  DT_CHECK_EQ(in_flight, in_flight_);
  DT_CHECK_EQ(in_flight, leases_.size());
  DT_CHECK_EQ(delayed, delayed_);
  size_t behind = 0;
  size_t entries = 0;
  for (const auto& [id, topic] : topics_) {
    if (topic->behind) ++behind;
    entries += topic->entries;
    // A topic that could be served is in the queue.
    DT_CHECK(topic->queued || topic->ready.count == 0 || topic->willing.empty());
  }
  DT_CHECK_EQ(behind, behind_);
  DT_CHECK_EQ(entries, table_.size());
  DT_CHECK_LE(table_.size(), 2 * limits_.due_max);
}

}  // namespace duetime::delivery
