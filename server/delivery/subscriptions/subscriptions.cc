// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/subscriptions/subscriptions.h"

#include <algorithm>
#include <string>
#include <utility>

#include "server/base/check.h"
#include "storage/subscription_starts.h"

namespace duetime::delivery {

using storage::Durability;
using storage::ObjectKind;
using storage::SubscriptionId;
using storage::TopicId;

namespace {

constexpr size_t kRecoverPage = 1000;

}  // namespace

Subscriptions::Subscriptions(const ShardParts& parts)
    : shard_(parts.shard),
      limits_(*parts.limits),
      store_(parts.store),
      writer_(parts.writer),
      failure_rate_(limits_.failure_rate) {
  DT_CHECK(store_ != nullptr);
  DT_CHECK(writer_ != nullptr);
}

absl::StatusOr<std::vector<Subscription*>> Subscriptions::Recover(base::Now now) {
  DT_CHECK(subscriptions_.empty());
  DT_CHECK(topics_.empty());
  start_ = now;
  std::vector<Subscription*> found;
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
    DT_CHECK_LE(objects.size(), kRecoverPage);
    for (const storage::ObjectRef& object : objects) {
      auto state = protocol::DecodeSubscription(object.name, object.value);
      if (!state.ok()) return state.status();
      greatest = std::max(greatest, state->id);
      Topic* const topic = AddTopic(state->topic);
      if (state->deleted) {
        topic->several = topic->some_deleted = true;
        deleted.emplace_back(state->id, state->topic);
        continue;
      }
      if (state->deleting) topic->some_deleted = true;
      found.push_back(Add(*std::move(state), topic));
    }
    more = objects.size() == kRecoverPage;
    if (more) after = objects.back().name;
  }
  CollectRetaining();
  for (const auto& [id, topic] : deleted) {
    // In a data directory that is older than the catalog, the object with the greatest number
    // reserves that number.
    if (!NoteDeletion(id, topics_[topic].get()) && id != greatest) RemoveObject(id);
  }
  return found;
}

Topic* Subscriptions::AddTopic(TopicId id) {
  std::unique_ptr<Topic>& topic = topics_[id];
  if (topic == nullptr) {
    topic = std::make_unique<Topic>();
    topic->id = id;
    SetSettings(topic.get(), protocol::DefaultTopicSettings());
  }
  return topic.get();
}

void Subscriptions::SetSettings(Topic* topic, protocol::TopicSettingsPtr settings) const {
  topic->settings = std::move(settings);
  topic->tombstone_retention_ms = topic->settings->has_tombstone_retention_ms()
                                      ? topic->settings->tombstone_retention_ms()
                                      : limits_.tombstone_retention_ms;
}

Topic* Subscriptions::TopicOf(TopicId id) {
  Topic* const topic = AddTopic(id);
  if (topic->subscriptions.empty()) {
    protocol::SubscriptionState state;
    state.id = storage::FirstSubscription(id);
    state.topic = id;
    Add(std::move(state), topic);
  }
  DT_CHECK(!topic->subscriptions.empty());
  return topic;
}

Subscription* Subscriptions::Find(SubscriptionId id) const {
  const auto it = subscriptions_.find(id);
  return it == subscriptions_.end() ? nullptr : it->second.get();
}

Subscription* Subscriptions::Add(protocol::SubscriptionState state, Topic* topic) {
  DT_CHECK(topic != nullptr);
  DT_CHECK(!state.deleted);
  DT_CHECK(state.topic == topic->id);
  std::unique_ptr<Subscription>& subscription = subscriptions_[state.id];
  DT_CHECK(subscription == nullptr);
  subscription = std::make_unique<Subscription>();
  subscription->state = std::move(state);
  if (subscription->state.name.empty()) Unname(subscription.get());
  subscription->topic = topic;
  subscription->pacing.Start(start_, limits_.startup_rate, &failure_rate_);
  subscription->pacing.SetClock(
      topic->pace == nullptr ? nullptr : topic->pace->ClockOf(subscription->state.id));
  topic->subscriptions.push_back(subscription.get());
  if (topic->subscriptions.size() > 1) topic->several = true;
  return subscription.get();
}

void Subscriptions::Unname(Subscription* subscription) const {
  subscription->state.name.clear();
  // The topic's number may get another name.
  subscription->state.topic_name.clear();
  subscription->state.settings = protocol::DefaultSubscriptionSettings();
  *subscription->state.settings.mutable_retry() = limits_.nameless_retry;
}

void Subscriptions::Save(const Subscription& subscription) {
  DT_CHECK(!subscription.state.deleted || subscription.counts.total == 0);
  writer_->PutObject(ObjectKind::kSubscription,
                     protocol::SubscriptionObjectName(subscription.state.id),
                     protocol::EncodeSubscription(subscription.state), Durability::kSynced);
}

void Subscriptions::SaveStart(const Subscription& subscription) {
  writer_->PutObject(ObjectKind::kSubscriptionStart,
                     protocol::SubscriptionObjectName(subscription.state.id),
                     storage::EncodeSubscriptionStart(
                         {.topic = subscription.topic->id, .first = subscription.state.start}),
                     Durability::kSynced);
}

void Subscriptions::Remove(Subscription* subscription) {
  DT_CHECK(subscription->state.deleting);
  DT_CHECK_EQ(subscription->counts.total, 0u);
  DT_CHECK_EQ(subscription->streams, 0u);
  DT_CHECK_EQ(subscription->spills_in_flight, 0u);
  DT_CHECK_EQ(subscription->forgets_in_flight, 0u);
  DT_CHECK_EQ(subscription->ready.count, 0u);
  DT_CHECK_EQ(subscription->order.held(), 0u);
  DT_CHECK_EQ(subscription->order.waiting(), 0u);
  DT_CHECK(!subscription->filling);
  DT_CHECK(subscription->available.empty());
  DT_CHECK(subscription->wake.none());
  DT_CHECK(!subscription->reading && !subscription->backlog.any());
  DT_CHECK(!subscription->serve_queued && !subscription->read_queued);
  DT_CHECK(!subscription->pacing.throttle.slowed());
  const SubscriptionId id = subscription->state.id;
  subscription->state.deleted = true;
  if (NoteDeletion(id, subscription->topic)) {
    Save(*subscription);
  } else {
    RemoveObject(id);
  }
  writer_->RemoveObject(ObjectKind::kSubscriptionStart, protocol::SubscriptionObjectName(id),
                        Durability::kBuffered);
  DT_CHECK_EQ(std::erase(subscription->topic->subscriptions, subscription), 1u);
  DT_CHECK_EQ(subscriptions_.erase(id), 1u);
}

bool Subscriptions::NoteDeletion(SubscriptionId id, Topic* topic) {
  DT_CHECK(topic != nullptr);
  // The object of a first subscription reserves its topic's number.
  return !std::exchange(topic->deletion_kept, true) ||
         static_cast<uint32_t>(id) < storage::kSecondSubscription;
}

void Subscriptions::RemoveObject(SubscriptionId id) {
  writer_->RemoveObject(ObjectKind::kSubscription, protocol::SubscriptionObjectName(id),
                        Durability::kBuffered);
}

void Subscriptions::CollectRetaining() {
  retaining_.clear();
  for (const auto& [id, subscription] : subscriptions_) {
    if (subscription->retains() && !subscription->state.deleting) {
      retaining_.push_back(subscription.get());
    }
  }
  // The order of a hash table differs from run to run.
  std::sort(retaining_.begin(), retaining_.end(),
            [](const Subscription* a, const Subscription* b) { return a->state.id < b->state.id; });
}

void Subscriptions::CheckInvariants() const {
  size_t slowed = 0;
  for (const auto& [id, subscription] : subscriptions_) {
    DT_CHECK(subscription->state.id == id);
    DT_CHECK(!subscription->state.deleted);
    subscription->backlog.CheckInvariants();
    if (subscription->pacing.throttle.slowed()) {
      ++slowed;
      DT_CHECK(!subscription->state.deleting);
      DT_CHECK(!subscription->wake.none());
    }
    DT_CHECK(!subscription->pacing.waiting() || !subscription->wake.none());
  }
  DT_CHECK_EQ(slowed, failure_rate_.slowed());
  size_t listed = 0;
  for (const auto& [id, topic] : topics_) {
    DT_CHECK(topic->id == id);
    listed += topic->subscriptions.size();
  }
  DT_CHECK_EQ(listed, subscriptions_.size());
  DT_CHECK_LE(retaining_.size(), subscriptions_.size());
}

}  // namespace duetime::delivery
