// SPDX-License-Identifier: Apache-2.0
//
// The part of Dispatcher that creates, changes and deletes subscriptions.
#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_set.h"

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/delivery/dispatcher.h"

namespace duetime::delivery {

using storage::Durability;
using storage::MessageKey;
using storage::ObjectKind;
using storage::Record;
using storage::RecordType;
using storage::SubscriptionId;
using storage::TopicId;

namespace {

// The first subscriptions of topics have numbers below this, all others from here on.
constexpr uint32_t kSecondSubscription = uint32_t{1} << 31;

constexpr size_t kRecoverPage = 1000;

}  // namespace

Subscription* Dispatcher::FindSubscription(SubscriptionId id) const {
  const auto it = subscriptions_.find(id);
  return it == subscriptions_.end() ? nullptr : it->second.get();
}

Subscription* Dispatcher::AddSubscription(SubscriptionState state, Topic* topic) {
  std::unique_ptr<Subscription>& subscription = subscriptions_[state.id];
  // One that was deleted may come back under its number, as what a topic has without being asked.
  DT_CHECK(subscription == nullptr || subscription->state.deleted);
  if (subscription == nullptr) subscription = std::make_unique<Subscription>();
  subscription->state = std::move(state);
  subscription->topic = topic;
  if (topic->pace != nullptr) subscription->pace = topic->pace->ClockOf(subscription->state.id);
  subscription->catch_up.Start(start_.mono_ms, limits_.catch_up_rate);
  subscription->brake.Start(&failure_rate_);
  topic->subscriptions.push_back(subscription.get());
  if (topic->subscriptions.size() > 1) topic->several = true;
  return subscription.get();
}

absl::Status Dispatcher::RecoverSubscriptions() {
  SubscriptionId greatest{};
  std::vector<std::pair<SubscriptionId, TopicId>> deleted;
  std::string after;
  for (bool more = true; more;) {
    std::vector<storage::ObjectRef> objects;
    if (absl::Status status =
            store_->ScanObjects(ObjectKind::kSubscription, shard_, after, kRecoverPage, &objects);
        !status.ok()) {
      return status;
    }
    for (const storage::ObjectRef& object : objects) {
      auto state = DecodeSubscription(object.name, object.value);
      if (!state.ok()) return state.status();
      greatest = std::max(greatest, state->id);
      std::unique_ptr<Topic>& topic = topics_[state->topic];
      if (topic == nullptr) {
        topic = std::make_unique<Topic>();
        topic->id = state->topic;
        topic->fate_retention_ms = limits_.fate_retention_ms;
      }
      if (state->deleted) {
        topic->several = topic->some_deleted = true;
        deleted.emplace_back(state->id, state->topic);
        continue;
      }
      Subscription* const subscription = AddSubscription(*std::move(state), topic.get());
      if (subscription->state.deleting) {
        topic->some_deleted = true;
        releasing_.push_back(subscription);
      }
      if (subscription->state.fill_until_ms > 0) StartFilling(subscription);
    }
    more = objects.size() == kRecoverPage;
    if (more) after = objects.back().name;
  }
  CollectRetaining();
  absl::flat_hash_set<TopicId> remembered;
  for (const auto& [id, topic] : deleted) {
    // The greatest keeps its number from being given again, and a first one its topic's. One of
    // each topic tells that there may be progress of deleted ones.
    if (remembered.insert(topic).second || id == greatest ||
        static_cast<uint32_t>(id) < kSecondSubscription) {
      continue;
    }
    writer_->RemoveObject(ObjectKind::kSubscription, SubscriptionObjectName(id),
                          Durability::kBuffered);
  }
  return absl::OkStatus();
}

void Dispatcher::CollectRetaining() {
  retaining_.clear();
  for (const auto& [id, subscription] : subscriptions_) {
    if (subscription->retains() && !subscription->state.deleting) {
      retaining_.push_back(subscription.get());
    }
  }
  // Not in the order of a hash table, which is another each time.
  std::sort(retaining_.begin(), retaining_.end(),
            [](const Subscription* a, const Subscription* b) { return a->state.id < b->state.id; });
}

void Dispatcher::Save(const Subscription& subscription) {
  writer_->PutObject(ObjectKind::kSubscription, SubscriptionObjectName(subscription.state.id),
                     EncodeSubscription(subscription.state), Durability::kSynced);
}

void Dispatcher::SetTopic(base::Now now, const TopicCommand& command) {
  Topic* const topic = TopicOf(command.topic);
  topic->fate_retention_ms = command.fate_retention_ms;
  topic->paused = command.paused;
  topic->pace = command.pace;
  topic->dead_letter = command.dead_letter;
  topic->dead_letter_name = command.dead_letter_name;
  for (Subscription* const subscription : topic->subscriptions) {
    subscription->pace =
        topic->pace == nullptr ? nullptr : topic->pace->ClockOf(subscription->state.id);
    LookAt(now, subscription);
  }
}

void Dispatcher::Refuse(const SubscriptionCommand& command) {
  effects_->subscriptions.push_back(
      {.tag = command.tag, .position = command.position, .status = base::StorageFailedError()});
}

void Dispatcher::Change(base::Now now, SubscriptionCommand command) {
  SubscriptionReply reply{.tag = command.tag, .position = command.position, .status = {}};
  Subscription* const subscription = FindSubscription(command.state.id);
  const bool known = subscription != nullptr && !subscription->state.deleting;
  for (auto& [topic, name] : command.new_topics) writer_->PutTopicName(topic, std::move(name));
  switch (command.kind) {
    case SubscriptionCommand::Kind::kCreate:
      Create(now, std::move(command));
      break;
    case SubscriptionCommand::Kind::kUpdate:
      if (!known) break;
      subscription->state.settings = command.state.settings;
      // It is counted exactly as long as it matters.
      subscription->listed.Forget();
      Save(*subscription);
      LookAt(now, subscription);
      break;
    case SubscriptionCommand::Kind::kDelete:
      if (known) Delete(now, subscription, command.keep_messages);
      break;
  }
  CollectRetaining();
  outbox_->Then([this, reply = std::move(reply)](base::Now, bool ok) mutable {
    if (!ok) reply.status = base::StorageFailedError();
    effects_->subscriptions.push_back(std::move(reply));
  });
}

void Dispatcher::Create(base::Now now, SubscriptionCommand command) {
  Topic* const topic = TopicOf(command.state.topic);
  SubscriptionState& state = command.state;
  Subscription* subscription = FindSubscription(state.id);
  if (subscription != nullptr && !subscription->state.deleting) {
    // It keeps what it has, and goes by this name from now on.
    state.start = subscription->state.start;
    state.fill_until_ms = subscription->state.fill_until_ms;
    subscription->state = std::move(state);
    subscription->listed.Forget();
  } else if (subscription == nullptr) {
    state.deleting = state.deleted = false;
    state.start = command.from_now ? scheduler_->NextId() : storage::MessageId{};
    // What is due has been offered to the others already, or is about to be.
    state.fill_until_ms =
        command.from_now ? 0
                         : std::max({now.wall_ms, scheduler_->reached_ms(), scheduler_->safe_ms()});
    subscription = AddSubscription(std::move(state), topic);
    if (subscription->state.fill_until_ms > 0) StartFilling(subscription);
  } else {
    return;  // its number is not given again
  }
  Save(*subscription);
  LookAt(now, subscription);
}

void Dispatcher::StartFilling(Subscription* subscription) {
  // New messages come behind what it is filled with.
  FallBehind(subscription, MessageKey{});
  subscription->filled_until_ms = subscription->state.fill_until_ms;
  filling_.push_back(subscription);
}

void Dispatcher::Delete(base::Now now, Subscription* subscription, bool keep_messages) {
  const std::vector<Subscription*>& all = subscription->topic->subscriptions;
  const bool last = std::none_of(all.begin(), all.end(), [subscription](const Subscription* other) {
    return other != subscription && !other->state.deleting;
  });
  subscription->brake.Reset();
  if (keep_messages || last) {
    subscription->state.name.clear();
    subscription->state.settings = {};
    Save(*subscription);
    // Who takes it over does not take over its subscribers, nor how they failed.
    EndStreams(subscription, /*give_back=*/true);
    LookAt(now, subscription);
    return;
  }
  subscription->state.deleting = true;
  subscription->topic->some_deleted = true;
  Save(*subscription);
  EndStreams(subscription, /*give_back=*/false);
  releasing_.push_back(subscription);
}

void Dispatcher::EndStreams(Subscription* subscription, bool give_back) {
  subscription->willing.clear();
  subscription->streams = 0;
  std::vector<StreamId> over;
  for (const auto& [id, stream] : streams_) {
    if (stream->subscription != subscription) continue;
    stream->willing = stream->attached = false;
    stream->dismissed = true;
    if (stream->in_flight.count == 0) {
      over.push_back(id);
    } else if (give_back) {
      closing_.push_back(id);
    }
  }
  for (const StreamId id : over) streams_.erase(id);
}

void Dispatcher::Inspect(const InspectSubscriptionCommand& command) {
  InspectSubscriptionReply reply;
  reply.tag = command.tag;
  reply.position = command.position;
  const Subscription* const subscription = FindSubscription(command.subscription);
  if (subscription == nullptr || subscription->state.deleting) {
    reply.status = absl::NotFoundError("there is no such subscription");
    effects_->subscription_gauges.push_back(std::move(reply));
    return;
  }
  SubscriptionGauges& gauges = reply.gauges;
  gauges.ready = subscription->ready.count;
  gauges.in_flight = subscription->in_flight;
  gauges.delayed = subscription->delayed;
  gauges.blocked = subscription->holds.waiting();
  gauges.streams = subscription->streams;
  gauges.behind = subscription->has_backlog();
  gauges.slowed = subscription->brake.slowed();
  gauges.delivered = subscription->delivered;
  gauges.acked = subscription->acked;
  gauges.dead_lettered = subscription->dead_lettered;
  gauges.dropped = subscription->dropped;
  if (subscription->ready.head != kNoEntry) {
    gauges.oldest_due_ms = table_[subscription->ready.head].due_ms;
  }
  if (subscription->has_backlog()) {
    reply.backlog_from = subscription->parked.value_or(subscription->backlog_cursor);
  }
  effects_->subscription_gauges.push_back(std::move(reply));
}

}  // namespace duetime::delivery
