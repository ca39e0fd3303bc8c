// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/dispatcher.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/delivery/backlog/backlog.h"
#include "server/delivery/backlog/backlog_reader.h"
#include "server/delivery/clean_stop.h"
#include "server/delivery/delivery_timers.h"
#include "server/delivery/endings/expiry.h"
#include "server/delivery/endings/lease_ends.h"
#include "server/delivery/endings/message_ends.h"
#include "server/delivery/endings/retention.h"
#include "server/delivery/hand_out.h"
#include "server/delivery/offers.h"
#include "server/delivery/pace/pacing.h"
#include "server/delivery/pace/turns.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/streams.h"
#include "server/delivery/subscriptions/subscription_changes.h"
#include "server/delivery/subscriptions/subscription_fill.h"
#include "server/delivery/subscriptions/subscription_release.h"
#include "server/delivery/subscriptions/subscriptions.h"

namespace duetime::delivery {

using storage::MessageKey;

namespace {

// Pages of the backlog that one step reads.
constexpr size_t kPagesPerStep = 4;

}  // namespace

Dispatcher::Dispatcher(const ShardParts& shard, scheduler::Scheduler* scheduler)
    : search_period_ms_(shard.limits->scheduler.low_watermark_period_ms),
      scheduler_(scheduler),
      effects_(shard.effects),
      assembly_(shard, scheduler),
      parts_(assembly_.parts()) {
  DT_CHECK(AllSet(scheduler_, effects_));
}

absl::Status Dispatcher::Recover(base::Now now) {
  if (absl::Status status = parts_.changes->Recover(now); !status.ok()) return status;
  return parts_.backlog->Recover();
}

void Dispatcher::OnDue(base::Now now, const storage::MessageRef& message) {
  parts_.offers->OnDue(now, message);
}

// ---- Commands

void Dispatcher::Attach(base::Now now, const protocol::AttachCommand& command) {
  Subscriptions& subscriptions = *parts_.subscriptions;
  if (command.subscription == storage::FirstSubscription(command.topic)) {
    subscriptions.TopicOf(command.topic);
  }
  Subscription* const subscription = subscriptions.Find(command.subscription);
  // A subscription that was deleted meanwhile has nothing to hand out.
  if (subscription == nullptr || subscription->state.deleting) return;
  parts_.streams->Attach(command, subscription);
  parts_.pacing->CheckAgain(now, subscription);
  parts_.streams->MakeAvailable(parts_.streams->Get(command.stream));
}

void Dispatcher::Detach(const protocol::DetachCommand& command) { parts_.streams->Detach(command); }

void Dispatcher::Settle(base::Now now, protocol::SettleCommand command) {
  parts_.lease_ends->Settle(now, std::move(command));
}

void Dispatcher::Credit(const protocol::CreditCommand& command) {
  Stream* const stream = parts_.streams->Find(command.stream);
  if (stream != nullptr) parts_.streams->MakeAvailable(stream);
}

void Dispatcher::SetTopic(base::Now now, const protocol::TopicCommand& command) {
  parts_.changes->SetTopic(now, command);
}

void Dispatcher::Change(base::Now now, protocol::SubscriptionCommand command) {
  parts_.changes->Change(now, std::move(command));
}

void Dispatcher::Inspect(const protocol::InspectSubscriptionCommand& command) {
  parts_.changes->Inspect(command);
}

void Dispatcher::Refuse(const protocol::SubscriptionCommand& command) {
  effects_->replies.push_back(protocol::SubscriptionReply{
      .tag = command.tag, .position = command.position, .status = base::StorageFailedError()});
}

// ---- A step

void Dispatcher::BeginStep(base::Now now, bool* more) {
  if (parts_.lease_ends->Step(now)) *more = true;
}

absl::Status Dispatcher::Pump(base::Now now, size_t budget, bool* more) {
  if (!read_status().ok()) return read_status();
  if (stopped_) return absl::OkStatus();
  Turns& turns = *parts_.turns;
  turns.ReadBackIfRoom();
  for (size_t i = 0; i < kPagesPerStep && turns.any_to_read_back(); ++i) {
    absl::Status status = parts_.backlog_reader->ReadPage(now, turns.NextToReadBack());
    if (!status.ok()) return status;
  }
  if (absl::Status status = parts_.hand_out->Step(now, budget, more); !status.ok()) return status;
  turns.ReadBackIfRoom();
  if (turns.any_to_read_back()) *more = true;
  return read_status();
}

void Dispatcher::BackgroundStep(base::Now now, bool* more) {
  if (parts_.release->Step(now)) *more = true;
  if (parts_.fill->Step()) *more = true;
  if (now.mono_ms >= next_search_mono_ms_) {
    bool again = parts_.retention->Step(now);
    if (parts_.expiry->Step(now)) again = true;
    next_search_mono_ms_ = now.mono_ms + (again ? 0 : search_period_ms_);
    parts_.backlog->CollectOld(now);
  }
  if (parts_.backlog->ListOld()) *more = true;
}

void Dispatcher::OnClockStep(base::Now now) {
  std::vector<Subscription*> parked;
  parts_.subscriptions->ForEach([&parked](Subscription& subscription) {
    if (subscription.backlog.parked().has_value()) parked.push_back(&subscription);
  });
  std::sort(parked.begin(), parked.end(),
            [](const Subscription* a, const Subscription* b) { return a->state.id < b->state.id; });
  for (Subscription* const subscription : parked) parts_.pacing->CheckAgain(now, subscription);
}

// ---- For MessageCommands

EntryIndex Dispatcher::Find(const storage::MessageId& id) const { return parts_.table->Find(id); }

EntryIndex Dispatcher::FindAt(const MessageKey& key) const { return parts_.table->FindAt(key); }

const PendingDelivery& Dispatcher::entry(EntryIndex index) const {
  DT_CHECK_LT(index, parts_.table->capacity());
  return (*parts_.table)[index];
}

const Topic& Dispatcher::topic(storage::TopicId id) { return *parts_.subscriptions->TopicOf(id); }

bool Dispatcher::AnyEnding(const storage::MessageId& id) const {
  return parts_.ends->AnyEnding(id);
}

bool Dispatcher::MessageEnding(const MessageKey& key) const {
  return parts_.ends->MessageEnding(key);
}

absl::Status Dispatcher::DeliveryStatusOf(base::Now now, const MessageKey& key,
                                          storage::TopicId topic_id, DeliveryStatus* status,
                                          std::vector<protocol::SubscriptionStatus>* list) {
  auto read = parts_.status->StatusOf(now, key, topic(topic_id), list);
  if (!read.ok()) return read.status();
  *status = *read;
  return absl::OkStatus();
}

absl::Status Dispatcher::BeginEnd(base::Now now, const MessageEnd& end) {
  return parts_.ends->BeginEnd(now, end);
}

absl::Status Dispatcher::BeginMove(const MessageKey& key, storage::TopicId topic_id) {
  return parts_.ends->BeginMove(key, topic(topic_id));
}

void Dispatcher::FinishAll(const MessageKey& key) { parts_.ends->FinishAll(key); }

// ---- For the shard

void Dispatcher::NoteReadError(const absl::Status& status) { parts_.reader->Fail(status); }

const absl::Status& Dispatcher::read_status() const { return parts_.reader->status(); }

void Dispatcher::Stop() {
  stopped_ = true;
  parts_.lease_ends->Stop();
}

bool Dispatcher::StepCleanStop(base::Now now) {
  DT_CHECK(stopped_);
  return parts_.clean_stop->Step(now);
}

bool Dispatcher::settles_waiting() const { return parts_.lease_ends->waiting() > 0; }

uint64_t Dispatcher::NextWakeMono() const {
  const uint64_t timer_ms = parts_.timers->NextDue();
  const bool searches = scheduler_->low_watermark()->pinned() > 0 ||
                        !parts_.subscriptions->retaining().empty() || parts_.expiry->any_limited();
  return searches ? std::min(timer_ms, next_search_mono_ms_) : timer_ms;
}

void Dispatcher::FillStats(protocol::ShardStats* stats) const {
  const PendingDeliveries& table = *parts_.table;
  stats->due_ready = table.count(EntryState::kReady);
  stats->in_flight = table.count(EntryState::kInFlight);
  stats->delayed = table.count(EntryState::kDelayed);
  stats->blocked = table.count(EntryState::kBlocked);
  stats->slowed = parts_.subscriptions->slowed();
  stats->settling = parts_.lease_ends->waiting();
  stats->streams = parts_.streams->size();
  stats->topics_behind = parts_.backlog->behind();
  stats->subscriptions = parts_.subscriptions->size();
}

void Dispatcher::CheckInvariants() const { assembly_.CheckInvariants(); }

}  // namespace duetime::delivery
