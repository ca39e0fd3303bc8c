// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/subscriptions/subscription_changes.h"

#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/delivery/endings/expiry.h"
#include "server/delivery/pace/pacing.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/streams.h"
#include "server/delivery/subscriptions/subscription_fill.h"
#include "server/delivery/subscriptions/subscription_release.h"
#include "server/delivery/subscriptions/subscriptions.h"
#include "server/protocol/reply_to.h"
#include "server/scheduler/scheduler.h"

namespace duetime::delivery {

SubscriptionChanges::SubscriptionChanges(const Core& core, Pacing* pacing, SubscriptionFill* fill,
                                         Expiry* expiry, SubscriptionRelease* release)
    : core_(core), pacing_(pacing), fill_(fill), expiry_(expiry), release_(release) {}

absl::Status SubscriptionChanges::Recover(base::Now now) {
  const auto found = core_.subscriptions.Recover(now);
  if (!found.ok()) return found.status();
  for (Subscription* const subscription : *found) {
    if (subscription->state.deleting) release_->Start(subscription);
    if (subscription->state.fill_until_ms > 0) fill_->Start(subscription);
  }
  return absl::OkStatus();
}

void SubscriptionChanges::SetTopic(base::Now now, const protocol::TopicCommand& command) {
  Topic* const topic = core_.subscriptions.TopicOf(command.topic);
  core_.subscriptions.SetSettings(topic, command.settings);
  topic->pace = command.pace;
  topic->dead_letter = command.dead_letter;
  if (command.quota != nullptr) expiry_->AddLimited(command.topic);
  DT_CHECK(!topic->subscriptions.empty());
  for (Subscription* const subscription : topic->subscriptions) {
    subscription->pacing.SetClock(
        topic->pace == nullptr ? nullptr : topic->pace->ClockOf(subscription->state.id));
    pacing_->CheckAgain(now, subscription);
  }
}

void SubscriptionChanges::Change(base::Now now, protocol::SubscriptionCommand command) {
  auto reply = protocol::ReplyTo(command);
  Subscription* const subscription = core_.subscriptions.Find(command.state.id);
  const bool known = subscription != nullptr && !subscription->state.deleting;
  switch (command.kind) {
    case protocol::SubscriptionCommand::Kind::kCreate:
      Create(now, std::move(command));
      break;
    case protocol::SubscriptionCommand::Kind::kUpdate:
      if (known) Update(now, subscription, command.state.settings);
      break;
    case protocol::SubscriptionCommand::Kind::kDelete:
      if (known) Delete(now, subscription, command.keep_messages);
      break;
  }
  core_.subscriptions.CollectRetaining();
  core_.AnswerAfterCommit(std::move(reply));
}

void SubscriptionChanges::Attach(base::Now now, const protocol::AttachCommand& command) {
  if (command.subscription == storage::FirstSubscription(command.topic)) {
    core_.subscriptions.TopicOf(command.topic);
  }
  Subscription* const subscription = core_.subscriptions.Find(command.subscription);
  // A subscription that was deleted meanwhile has nothing to hand out.
  if (subscription == nullptr || subscription->state.deleting) return;
  core_.streams.Attach(command, subscription);
  pacing_->CheckAgain(now, subscription);
  core_.streams.MakeAvailable(core_.streams.Get(command.stream));
}

void SubscriptionChanges::Create(base::Now now, protocol::SubscriptionCommand command) {
  Topic* const topic = core_.subscriptions.TopicOf(command.state.topic);
  protocol::SubscriptionState& state = command.state;
  Subscription* subscription = core_.subscriptions.Find(state.id);
  if (subscription == nullptr) {
    state.deleting = state.deleted = false;
    state.start = command.from_now ? core_.scheduler.NextId() : storage::MessageId{};
    // Due messages are offered to the other subscriptions only, so the fill must list them.
    state.fill_until_ms = command.from_now ? 0
                                           : std::max({now.wall_ms, core_.scheduler.reached_ms(),
                                                       core_.scheduler.low_watermark_ms()});
    subscription = core_.subscriptions.Add(std::move(state), topic);
    if (command.from_now) core_.subscriptions.SaveStart(*subscription);
    // After a repair, listings and attempts of an earlier object with this number may be left.
    if (!command.from_now) subscription->forgot_delivered = true;
    if (subscription->state.fill_until_ms > 0) fill_->Start(subscription);
  } else if (!subscription->state.deleting) {
    // The subscription keeps its messages, and takes the new name and settings.
    state.start = subscription->state.start;
    state.fill_until_ms = subscription->state.fill_until_ms;
    subscription->state = std::move(state);
    subscription->listed.Forget();
  } else {
    return;  // the catalog does not use a deleted subscription's number again
  }
  core_.subscriptions.Save(*subscription);
  pacing_->CheckAgain(now, subscription);
}

void SubscriptionChanges::Update(base::Now now, Subscription* subscription,
                                 const protocol::SubscriptionSettings& settings) {
  DT_CHECK(!subscription->state.deleting);
  subscription->state.settings = settings;
  // The count is exact only while the number is bounded.
  subscription->listed.Forget();
  core_.subscriptions.Save(*subscription);
  pacing_->CheckAgain(now, subscription);
}

void SubscriptionChanges::Delete(base::Now now, Subscription* subscription, bool keep_messages) {
  DT_CHECK(!subscription->state.deleting);
  const std::vector<Subscription*>& all = subscription->topic->subscriptions;
  const bool last = std::none_of(all.begin(), all.end(), [subscription](const Subscription* other) {
    return other != subscription && !other->state.deleting;
  });
  subscription->pacing.throttle.Reset();
  if (keep_messages || last) return Unname(now, subscription);
  subscription->state.deleting = true;
  subscription->topic->some_deleted = true;
  core_.subscriptions.Save(*subscription);
  core_.streams.DismissAll(subscription, /*give_back=*/false);
  release_->Start(subscription);
}

void SubscriptionChanges::Unname(base::Now now, Subscription* subscription) {
  DT_CHECK(!subscription->state.deleting);
  core_.subscriptions.Unname(subscription);
  core_.subscriptions.Save(*subscription);
  // The next subscription takes over neither the streams nor their failures.
  core_.streams.DismissAll(subscription, /*give_back=*/true);
  pacing_->CheckAgain(now, subscription);
}

void SubscriptionChanges::Inspect(const protocol::InspectSubscriptionCommand& command) {
  protocol::InspectSubscriptionReply reply;
  reply.tag = command.tag;
  reply.position = command.position;
  const Subscription* const subscription = core_.subscriptions.Find(command.subscription);
  if (subscription == nullptr || subscription->state.deleting) {
    reply.status = absl::NotFoundError("there is no such subscription");
  } else {
    reply.gauges = GaugesOf(*subscription);
    reply.gauges.longest_key = LongestKeyOf(*subscription);
  }
  core_.effects.replies.push_back(std::move(reply));
}

void SubscriptionChanges::Inspect(const protocol::ActivityCommand& command) {
  protocol::ActivityReply reply;
  reply.tag = command.tag;
  reply.position = command.position;
  for (const storage::TopicId topic : command.list->topics) {
    reply.topics.push_back(core_.subscriptions.ActivityOf(topic));
  }
  for (const storage::SubscriptionId id : command.list->subscriptions) {
    protocol::SubscriptionActivity& activity = reply.subscriptions.emplace_back();
    const Subscription* const subscription = core_.subscriptions.Find(id);
    if (subscription == nullptr) continue;
    activity = {.in_flight = subscription->counts.of(EntryState::kInFlight),
                .streams = subscription->streams,
                .delivered = subscription->delivered,
                .acked = subscription->acked,
                .failed = subscription->failed,
                .dead_lettered = subscription->dead_lettered};
    if (subscription->lateness != nullptr) activity.lateness = *subscription->lateness;
  }
  core_.Answer(std::move(reply));
}

protocol::SubscriptionGauges SubscriptionChanges::GaugesOf(const Subscription& subscription) const {
  protocol::SubscriptionGauges gauges;
  gauges.ready = subscription.ready.count;
  gauges.in_flight = subscription.counts.of(EntryState::kInFlight);
  gauges.delayed = subscription.counts.of(EntryState::kDelayed);
  gauges.blocked = subscription.order.waiting();
  gauges.streams = subscription.streams;
  gauges.behind = subscription.backlog.any();
  gauges.slowed = subscription.pacing.throttle.slowed();
  gauges.delivered = subscription.delivered;
  gauges.acked = subscription.acked;
  gauges.dead_lettered = subscription.dead_lettered;
  gauges.dead_letter_hops_refused = subscription.dead_letter_hops_refused;
  gauges.dropped = subscription.dropped;
  return gauges;
}

std::optional<protocol::LongestKey> SubscriptionChanges::LongestKeyOf(
    const Subscription& subscription) {
  const EntryIndex index = subscription.order.Longest();
  if (index == kNoEntry) return std::nullopt;
  const PendingDelivery& holder = core_.table[index];
  // Memory has only the hash of the key.
  return protocol::LongestKey{.ordering_key = core_.reader.OrderingKey(holder.key()),
                              .holder = holder.id,
                              .waiting = subscription.order.WaitingFor(holder.order),
                              .on_disk = subscription.order.HasRest(holder.order)};
}

}  // namespace duetime::delivery
