// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/dispatcher.h"

#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/delivery/lease_token.h"
#include "storage/message_record.h"

namespace duetime::delivery {

using storage::Durability;
using storage::MessageKey;
using storage::MessageRef;
using storage::Progress;
using storage::ProgressRef;
using storage::SubscriptionId;
using storage::TopicId;

namespace {

const Progress* FindRow(const std::vector<ProgressRef>& rows, SubscriptionId subscription) {
  for (const auto& [id, progress] : rows) {
    if (id == subscription) return &progress;
  }
  return nullptr;
}

}  // namespace

Dispatcher::Dispatcher(const ShardParts& parts, scheduler::Scheduler* scheduler)
    : shard_(parts.shard),
      limits_(*parts.limits),
      store_(parts.store),
      outbox_(parts.outbox),
      writer_(parts.writer),
      latches_(parts.latches),
      scheduler_(scheduler),
      effects_(parts.effects),
      stats_(parts.stats),
      occurrences_(parts.occurrences),
      endings_(parts.shard, parts.store, parts.writer, parts.latches),
      failure_rate_(limits_.failure_rate),
      timers_(0, FindStamp{this}, parts.slabs) {
  DT_CHECK_LT(shard_, kShardCountMax);
}

absl::Status Dispatcher::Recover(base::Now now) {
  start_ = now;
  if (absl::Status status = RecoverSubscriptions(); !status.ok()) return status;
  const auto listed = store_->BacklogSubscriptions(shard_);
  if (!listed.ok()) return listed.status();
  for (const SubscriptionId id : *listed) {
    Subscription* subscription = FindSubscription(id);
    if (subscription == nullptr) {
      // What was never named is the first one of its topic.
      Topic* const topic = TopicOf(TopicId{static_cast<uint32_t>(id)});
      subscription = topic->subscriptions.front();
    }
    if (subscription->state.id != id) continue;
    FallBehind(subscription, MessageKey{});
    subscription->listed.Forget();
    // It may hold what waits for its next attempt.
    subscription->forgot_delivered = true;
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
  if (topic->subscriptions.empty()) {
    SubscriptionState state;
    state.id = storage::FirstSubscription(id);
    state.topic = id;
    AddSubscription(std::move(state), topic.get());
  }
  return topic.get();
}

// ---- Due
// ------------------------------------------------------------------------------------------------------------

bool Dispatcher::FitsInMemory(const Subscription& subscription) const {
  if (subscription.behind) return false;  // behind what is already on disk
  if (!subscription.served() && subscription.entries >= limits_.due_idle_max) return false;
  if (table_.size() + reading_ < limits_.due_max) return true;
  // Memory is full of others: a subscription that is served keeps a small share, up to a second
  // limit.
  return subscription.served() && subscription.entries < limits_.due_idle_max &&
         RoomToReadBack() > 0;
}

bool Dispatcher::MustExist(const Subscription& subscription) const {
  return subscription.bounded() && (subscription.willing.empty() || !FitsInMemory(subscription));
}

void Dispatcher::OnDue(base::Now now, const MessageRef& message) {
  DT_CHECK_LE(message.key.due_ms, now.wall_ms);
  // Being ended or moved: what comes of it will be offered anew.
  if (latches_->Held(message.key.id)) return;
  Topic* const topic = TopicOf(message.topic);
  const bool repeats = scheduler_->MayRepeat(message.key);
  const bool noted = topic->several || repeats ||
                     std::any_of(topic->subscriptions.begin(), topic->subscriptions.end(),
                                 [](const Subscription* s) { return s->forgot_delivered; });
  rows_.clear();
  if (noted && !ReadRows(message.key)) return;
  const std::vector<ProgressRef> rows = std::exchange(rows_, {});
  bool wanted = false;
  bool known = !rows.empty();
  takers_.clear();
  for (Subscription* const subscription : topic->subscriptions) {
    if (!subscription->Covers(message.key.id)) continue;
    const Progress* const row = FindRow(rows, subscription->state.id);
    if (row != nullptr && row->state == Progress::State::kSettled) continue;
    wanted = true;
    if (const EntryIndex index = table_.Find(message.key.id, subscription); index != kNoEntry) {
      OfferAgain(index, message);
      known = true;
    } else if (IsNew(message, subscription, row, repeats)) {
      takers_.push_back(subscription);
    } else {
      known = true;
    }
  }
  if ((wanted && takers_.empty()) || !read_error_.ok()) return;
  // Also of an occurrence that nobody is left for: the next one is made when this one is due.
  if ((message.flags & storage::MessageFlags::kRecurs) != 0 && !known &&
      !occurrences_->OnOccurrenceDue(now, message)) {
    return;
  }
  if (!wanted) return EndUnwanted(now, message.key, WasSettled(message.key.id, *topic, rows));
  if (std::any_of(takers_.begin(), takers_.end(),
                  [this](const Subscription* taker) { return MustExist(*taker); })) {
    std::optional<std::string> record;
    if (!ReadRecord(message.key, &record) || !record.has_value()) return;
  }
  ++stats_->fired;
  for (Subscription* const subscription : takers_) {
    Offer(now, message, subscription, FindRow(rows, subscription->state.id));
  }
}

bool Dispatcher::WasSettled(const storage::MessageId& id, const Topic& topic,
                            const std::vector<ProgressRef>& rows) {
  return std::any_of(topic.subscriptions.begin(), topic.subscriptions.end(),
                     [&id, &rows](const Subscription* subscription) {
                       const Progress* const row = FindRow(rows, subscription->state.id);
                       return row != nullptr && row->state == Progress::State::kSettled &&
                              subscription->Covers(id);
                     });
}

bool Dispatcher::IsNew(const MessageRef& message, Subscription* subscription, const Progress* row,
                       bool repeats) {
  if (!subscription->has_backlog()) return true;
  // What is listed will be read back from there, with its attempts.
  if (row != nullptr && row->listed) return false;
  // What it was filled with may be due and not fired yet; a bounded one must not count it twice.
  const bool filled =
      subscription->bounded() && message.key.due_ms <= subscription->filled_until_ms;
  const bool look =
      filled || subscription->forgot_delivered || repeats || subscription->parked.has_value();
  return !look || !InBacklog(message.key, *subscription);
}

void Dispatcher::Offer(base::Now now, const MessageRef& message, Subscription* subscription,
                       const Progress* row) {
  if (!FitsInMemory(*subscription)) {
    SpillNew(message, subscription, row);
    return;
  }
  const EntryIndex index = AddEntry(message.key, message.bytes, subscription);
  DueEntry& entry = table_[index];
  entry.maybe_delivered = scheduler_->MaybeDelivered(message.key);
  entry.fire_ms = now.wall_ms;
  entry.held = true;
  scheduler_->safe_mark()->Hold(message.key.due_ms, index);
  if (row != nullptr) {
    entry.attempts = row->attempts;
    entry.progress = true;
    if (row->retry_ms > now.wall_ms) return ResumeDelay(now, index, *row);
  }
  MakeReady(index);
}

void Dispatcher::OfferAgain(EntryIndex index, const MessageRef& message) {
  DueEntry& entry = table_[index];
  if (entry.due_ms == message.key.due_ms || entry.seen || entry.state == EntryState::kEnding) {
    return;  // offered twice, or an echo of the time before it was moved
  }
  // One of the two is such an echo. The store knows which.
  std::optional<std::string> record;
  if (!ReadRecord(message.key, &record) || !record.has_value()) return;
  if (entry.state == EntryState::kForgetting) {
    SpillNew(message, entry.subscription, nullptr);
    return;
  }
  DT_CHECK(entry.state == EntryState::kReady || entry.state == EntryState::kDelayed);
  if (entry.held) scheduler_->safe_mark()->Release(entry.due_ms);
  if (entry.spilled) AddUnspill(entry.place(), *entry.subscription);
  entry.due_ms = message.key.due_ms;
  entry.bytes = message.bytes;
  if (absl::Status status =
          FindUncertainty(message.key, entry.subscription, &entry.attempts, &entry.maybe_delivered);
      !status.ok()) {
    read_error_ = status;
  }
  entry.spilled = entry.subscription->behind;  // it may be listed there
  entry.listed_ms = entry.due_ms;
  entry.held = true;
  scheduler_->safe_mark()->Hold(entry.due_ms, index);
}

void Dispatcher::EndUnwanted(base::Now now, const MessageKey& key, bool settled) {
  // An end of it that is on its way is the end of it.
  if (Ending(key.id)) return;
  std::optional<std::string> record;
  if (!ReadRecord(key, &record)) return;
  // An echo, or damaged: left alone.
  if (!record.has_value() || !storage::DecodeMessageRecord(*record, &decoded_).ok()) return;
  const auto how = settled ? storage::EndState::kAcked : storage::EndState::kDropped;
  if (absl::Status status = BeginEnd(now, key, decoded_, static_cast<uint32_t>(record->size()), how,
                                     /*stopped=*/false, Durability::kBuffered);
      !status.ok()) {
    read_error_ = status;
    return;
  }
  if (!settled) ++stats_->dropped;
  const scheduler::Latches::Name name(key.id);
  latches_->Acquire(name);
  outbox_->Then([this, key, name](base::Now then, bool ok) {
    if (ok) FinishWhole(key);
    latches_->Release(then, name, ok);
  });
}

EntryIndex Dispatcher::AddEntry(const MessageKey& key, uint32_t bytes, Subscription* subscription) {
  const EntryIndex index = table_.Insert(key, subscription);
  DueEntry& entry = table_[index];
  entry.bytes = bytes;
  entry.listed_ms = key.due_ms;
  ++subscription->entries;
  return index;
}

void Dispatcher::MakeReady(EntryIndex index) {
  DueEntry& entry = table_[index];
  entry.state = EntryState::kReady;
  entry.stream = StreamId{};
  table_.PushBack(&entry.subscription->ready, index);
  ++ready_;
  Enqueue(entry.subscription);
}

void Dispatcher::MakeDelayed(base::Now now, EntryIndex index, uint64_t delay_ms) {
  DueEntry& entry = table_[index];
  entry.state = EntryState::kDelayed;
  entry.stream = StreamId{};
  entry.wait_end_mono_ms = now.mono_ms + delay_ms;
  timers_.Add(entry.wait_end_mono_ms, Timer{.index = index, .subscription = {}}, &entry.timer);
  ++entry.subscription->delayed;
  ++delayed_;
}

void Dispatcher::ResumeDelay(base::Now now, EntryIndex index, const Progress& row) {
  if (table_.size() < limits_.due_max) {
    return MakeDelayed(now, index, row.retry_ms - now.wall_ms);
  }
  // No memory to wait in: it waits on disk.
  Progress listed = row;
  listed.listed = true;
  AddProgress(table_[index].key(), *table_[index].subscription, listed);
  SpillAt(index, row.retry_ms, /*forget=*/true);
}

// ---- For the outside
// ------------------------------------------------------------------------------------------------

void Dispatcher::FillStats(ShardStats* stats) const {
  stats->due_ready = ready_;
  stats->in_flight = in_flight_;
  stats->delayed = delayed_;
  stats->slowed = failure_rate_.slowed();
  stats->settling = settles_waiting_.size();
  stats->blocked = blocked_;
  stats->streams = streams_.size();
  stats->topics_behind = behind_;
  stats->subscriptions = subscriptions_.size();
}

void Dispatcher::CheckInvariants() const {
  timers_.CheckInvariants();
  size_t ready = 0;
  size_t in_flight = 0;
  size_t delayed = 0;
  size_t blocked = 0;
  size_t timers = 0;
  table_.ForEach([&](EntryIndex index, const DueEntry& entry) {
    const Subscription* const subscription = entry.subscription;
    DT_CHECK(subscription != nullptr);
    DT_CHECK_EQ(table_.Find(entry.id, subscription), index);
    if (!entry.timer.none()) ++timers;
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
        DT_CHECK(entry.order == 0 || subscription->holds.Holds(entry.order, index));
        break;
      }
      case EntryState::kDelayed:
        ++delayed;
        break;
      case EntryState::kBlocked:
        ++blocked;
        DT_CHECK(entry.order != 0);
        DT_CHECK(!subscription->holds.Holds(entry.order, index));
        break;
      case EntryState::kEnding:
      case EntryState::kForgetting:
        DT_CHECK_EQ(entry.order, 0u);
        break;
      case EntryState::kFree:
      case EntryState::kTaken:
        DT_CHECK(false);
    }
    DT_CHECK(entry.held || entry.spilled || entry.state == EntryState::kEnding);
  });
  DT_CHECK_EQ(ready, ready_);
  DT_CHECK_EQ(in_flight, in_flight_);
  DT_CHECK_EQ(in_flight, leases_.size());
  DT_CHECK_EQ(delayed, delayed_);
  DT_CHECK_EQ(blocked, blocked_);
  size_t behind = 0;
  size_t slowed = 0;
  size_t entries = 0;
  for (const auto& [id, subscription] : subscriptions_) {
    if (subscription->behind) ++behind;
    if (subscription->brake.slowed()) {
      ++slowed;
      DT_CHECK(!subscription->state.deleting && !subscription->wake.none());
    }
    DT_CHECK(!subscription->throttled || !subscription->wake.none());
    if (!subscription->wake.none()) ++timers;
    DT_CHECK(!subscription->behind || !subscription->parked.has_value());
    entries += subscription->entries;
    ready -= subscription->ready.count;
    in_flight -= subscription->in_flight;
    delayed -= subscription->delayed;
    blocked -= subscription->holds.waiting();
    // One that could be served is in the queue.
    DT_CHECK(subscription->queued || subscription->ready.count == 0 ||
             subscription->willing.empty() || subscription->throttled || subscription->paused());
  }
  DT_CHECK_EQ(ready + in_flight + delayed + blocked, 0u);
  DT_CHECK_EQ(behind, behind_);
  DT_CHECK_EQ(slowed, failure_rate_.slowed());
  DT_CHECK_EQ(timers, timers_.size());
  DT_CHECK_EQ(entries, table_.size());
  DT_CHECK_LE(table_.size(), 2 * limits_.due_max);
}

}  // namespace duetime::delivery
