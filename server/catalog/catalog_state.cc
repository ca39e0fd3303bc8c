// SPDX-License-Identifier: Apache-2.0
#include "server/catalog/catalog_state.h"

#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/catalog/catalog_errors.h"
#include "server/protocol/subscription_state.h"

namespace duetime::catalog {

using protocol::DeadLetterOf;
using storage::Durability;
using storage::ObjectKind;
using storage::Record;
using storage::RecordType;
using storage::SubscriptionId;
using storage::TopicId;

SubscriptionPtr Published(const SubscriptionEntry& entry) {
  DT_CHECK(!entry.stored.name.empty());
  DT_CHECK_GT(entry.incarnation, 0u);
  return std::make_shared<const Subscription>(Subscription{.id = entry.id,
                                                           .topic = entry.stored.topic,
                                                           .name = entry.stored.name,
                                                           .settings = entry.stored.settings,
                                                           .create_ms = entry.stored.create_ms,
                                                           .incarnation = entry.incarnation});
}

CatalogState::CatalogState(const CatalogOptions& options, scheduler::PendingWrites* writes)
    : options_(options), writes_(writes) {
  DT_CHECK(writes != nullptr);
}

// ---- Topics ------------------------------------------------------------------------------------

TopicEntry* CatalogState::Find(absl::string_view name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

TopicEntry* CatalogState::Of(TopicId id) {
  const auto found = by_id_.find(static_cast<uint32_t>(id));
  DT_CHECK(found != by_id_.end());
  return found->second.get();
}

std::vector<TopicEntry*> CatalogState::All() {
  std::vector<TopicEntry*> all;
  all.reserve(by_id_.size());
  for (const auto& [id, entry] : by_id_) all.push_back(entry.get());
  std::sort(all.begin(), all.end(), [](const TopicEntry* a, const TopicEntry* b) {
    return a->topic->name() < b->topic->name();
  });
  return all;
}

TopicNeed CatalogState::NeedOf(const TopicEntry* entry, bool reserve) const {
  if (entry == nullptr) return {.topics = 1, .names = 1, .reserved = reserve ? size_t{1} : 0};
  return {.topics = Counts(*entry->topic) ? size_t{0} : size_t{1}};
}

absl::Status CatalogState::CheckRoom(bool listened, const TopicNeed& need) const {
  const size_t listened_max = options_.topics_max / 10 + 1;
  if (listened && listened_ >= listened_max) return ListenedTopicLimitError(listened_max);
  return snapshot_.CheckRoom(options_.topics_max, now_ms_, counted_, by_id_.size(), need);
}

TopicEntry* CatalogState::Load(TopicId id, absl::string_view name) {
  DT_CHECK(id != TopicId{} && !name.empty());
  auto owned = std::make_unique<TopicEntry>();
  TopicEntry* const entry = owned.get();
  Topic topic;
  topic.id = id;
  topic.name_text = std::make_shared<const std::string>(name);
  topic.used = true;
  entry->topic = std::make_shared<const Topic>(std::move(topic));
  entry->nameless = storage::FirstSubscription(id);
  DT_CHECK(by_id_.emplace(static_cast<uint32_t>(id), std::move(owned)).second);
  DT_CHECK(by_name_.emplace(entry->topic->name(), entry).second);
  next_topic_ = std::max(next_topic_, static_cast<uint32_t>(id) + 1);
  ++counted_;
  return entry;
}

TopicEntry* CatalogState::Add(absl::string_view name, bool used) {
  DT_CHECK(Find(name) == nullptr);
  TopicEntry* entry = takes_over_ ? TakeOver(name) : nullptr;
  if (entry == nullptr) entry = Load(TopicId{next_topic_}, name);
  Topic topic = *entry->topic;
  topic.used = used;
  Set(entry, std::move(topic));
  Record record;
  record.type = RecordType::kTopic;
  record.topic = entry->topic->id;
  record.value = std::string(name);
  writes_->Add(std::move(record), Durability::kSynced);
  if (entry->topic->first_id != storage::MessageId{}) WriteDefaults(*entry);
  return entry;
}

TopicEntry* CatalogState::TakeOver(absl::string_view name) {
  TopicEntry* entry = nullptr;
  snapshot_.ends_.VisitFrom(NameEnd{}, [&](const NameEnd& end) {
    if (end.free_ms > now_ms_) return false;
    // A message may have come that the catalog has not heard of yet. It revives the topic.
    TopicEntry* const next = Of(end.topic);
    if (next->topic->touched->End()) entry = next;
    return entry == nullptr;
  });
  if (entry == nullptr) return nullptr;
  DT_CHECK(entry->subscriptions.empty() && entry->nameless.has_value());
  // Otherwise the next start would find the old name without a number.
  EraseObject(ObjectKind::kTopicSettings, std::string(entry->topic->name()), Durability::kSynced);
  DT_CHECK_EQ(by_name_.erase(entry->topic->name()), 1u);
  Topic topic = *entry->topic;
  topic.name_text = std::make_shared<const std::string>(name);
  topic.deleted = false;
  topic.first_id = entry->end_id;
  // The shards watch the number until they hear of the new topic.
  topic.touched = std::make_shared<TopicUse>();
  entry->phase = TopicPhase::kLive;
  entry->longest_retention_ms = 0;
  Replace(entry, std::move(topic));
  DT_CHECK(by_name_.emplace(entry->topic->name(), entry).second);
  DT_CHECK(entry->topic->settings == TopicSettings{} && entry->topic->dead_letters == TopicId{});
  return entry;
}

void CatalogState::Set(TopicEntry* entry, Topic topic) {
  DT_CHECK(topic.name_text == entry->topic->name_text);
  Replace(entry, std::move(topic));
}

void CatalogState::Replace(TopicEntry* entry, Topic topic) {
  DT_CHECK(topic.id == entry->topic->id);
  const TopicPtr before =
      std::exchange(entry->topic, std::make_shared<const Topic>(std::move(topic)));
  const Topic& after = *entry->topic;
  if (Listened(*before)) --listened_;
  if (Listened(after)) ++listened_;
  if (Counts(*before)) --counted_;
  if (Counts(after)) ++counted_;
  DT_CHECK_LE(listened_, by_id_.size());
  DT_CHECK_LE(counted_, by_id_.size());
  // A link of a deleted topic reserves nothing.
  const TopicId old_link = before->deleted ? TopicId{} : before->dead_letters;
  const TopicId new_link = after.deleted ? TopicId{} : after.dead_letters;
  if (old_link != new_link) {
    RemoveLink(old_link);
    AddLink(new_link);
  }
  if (!after.deleted) entry->free_ms = 0;
  FollowEnd(entry);
}

// ---- The ends of names -------------------------------------------------------------------------

void CatalogState::SetEnd(TopicEntry* entry, uint64_t free_ms, const storage::MessageId& end_id) {
  DT_CHECK(entry->topic->deleted && entry->phase == TopicPhase::kDeleted);
  DT_CHECK_GT(free_ms, 0u);
  entry->free_ms = free_ms;
  entry->end_id = std::max(end_id, entry->topic->first_id);
  FollowEnd(entry);
}

void CatalogState::FollowEnd(TopicEntry* entry) {
  const TopicId id = entry->topic->id;
  const bool ends = entry->topic->deleted && entry->phase == TopicPhase::kDeleted &&
                    entry->free_ms > 0 && !Counts(*entry->topic);
  const auto wanted = ends ? std::optional(entry->free_ms) : std::nullopt;
  if (wanted == entry->listed_ms) return;
  if (entry->listed_ms.has_value()) snapshot_.ends_.Erase(NameEnd{*entry->listed_ms, id});
  if (wanted.has_value()) snapshot_.ends_.Set(NameEnd{*wanted, id});
  entry->listed_ms = wanted;
  snapshot_changed_ = true;
}

void CatalogState::NoteRetention(uint64_t retention_ms) {
  if (retention_ms <= longest_retention_ms_) return;
  longest_retention_ms_ = retention_ms;
  WriteState();
}

bool CatalogState::IsDeleted(TopicId id) const {
  const auto found = by_id_.find(static_cast<uint32_t>(id));
  return found != by_id_.end() && found->second->topic->deleted;
}

void CatalogState::AddLink(TopicId to) {
  if (to == TopicId{}) return;
  if (++links_[static_cast<uint32_t>(to)] > 1 || !IsDeleted(to)) return;
  ++counted_;
  FollowEnd(Of(to));
}

void CatalogState::RemoveLink(TopicId to) {
  if (to == TopicId{}) return;
  const auto found = links_.find(static_cast<uint32_t>(to));
  DT_CHECK(found != links_.end());
  if (--found->second > 0) return;
  links_.erase(found);
  if (!IsDeleted(to)) return;
  --counted_;
  DT_CHECK_LE(counted_, by_id_.size());
  // A shard may make one more dead letter before it hears of the change.
  TopicEntry* const entry = Of(to);
  if (entry->free_ms > 0) entry->free_ms = std::max(entry->free_ms, now_ms_ + kNameSlackMs);
  FollowEnd(entry);
}

void CatalogState::ApplySettings(const TopicSettings& settings, Topic* topic) {
  if (settings.dead_letter_topic() != topic->settings.dead_letter_topic()) topic->dead_letters = {};
  topic->settings = settings;
  if (topic->quota == nullptr && settings.max_pending() > 0) {
    topic->quota = std::make_shared<protocol::TopicQuota>();
  }
  if (topic->pace == nullptr && settings.rate_per_s() > 0) {
    topic->pace = std::make_shared<protocol::TopicPace>();
  }
}

void CatalogState::Write(const TopicEntry& entry, TopicPhase phase, const TopicSettings& settings,
                         uint64_t free_ms) {
  const StoredTopic stored = {.phase = phase,
                              .settings = settings,
                              .free_ms = free_ms,
                              .longest_retention_ms = entry.longest_retention_ms,
                              .first_id = entry.topic->first_id};
  WriteObject(ObjectKind::kTopicSettings, std::string(entry.topic->name()), EncodeTopic(stored),
              Durability::kSynced);
}

void CatalogState::WriteDefaults(const TopicEntry& entry) {
  if (entry.topic->first_id != storage::MessageId{} || entry.longest_retention_ms > 0) {
    return Write(entry, TopicPhase::kLive, {});
  }
  EraseObject(ObjectKind::kTopicSettings, std::string(entry.topic->name()), Durability::kSynced);
}

void CatalogState::WriteObject(ObjectKind kind, std::string name, std::string value,
                               Durability durability) {
  Record record;
  record.type = RecordType::kObject;
  record.shard = kPartition;
  record.kind = static_cast<uint8_t>(kind);
  record.name = std::move(name);
  record.value = std::move(value);
  writes_->Add(std::move(record), durability);
}

void CatalogState::EraseObject(ObjectKind kind, std::string name, Durability durability) {
  Record record;
  record.type = RecordType::kUnobject;
  record.shard = kPartition;
  record.kind = static_cast<uint8_t>(kind);
  record.name = std::move(name);
  writes_->Add(std::move(record), durability);
}

// ---- Subscriptions -----------------------------------------------------------------------------

absl::Status CatalogState::CheckRoomForSubscription(const TopicEntry& entry) const {
  // The numbers end after 2^31 subscriptions.
  const bool room =
      entry.subscriptions.size() < options_.subscriptions_max && next_subscription_ != 0;
  return room ? absl::OkStatus() : SubscriptionLimitError(options_.subscriptions_max);
}

SubscriptionId CatalogState::NextSubscription(TopicEntry* entry) {
  DT_CHECK(entry->nameless.has_value() || !entry->subscriptions.empty());
  DT_CHECK(CheckRoomForSubscription(*entry).ok());
  SubscriptionId id{};
  if (entry->nameless.has_value()) {
    id = *entry->nameless;
    entry->nameless.reset();
  } else {
    id = SubscriptionId{next_subscription_++};
  }
  WriteState();
  return id;
}

void CatalogState::SetSubscription(TopicEntry* entry, SubscriptionEntry subscription) {
  SubscriptionEntry& place = entry->subscriptions[subscription.stored.name];
  RemoveLink(DeadLetterOf(place.stored.settings));
  place = std::move(subscription);
  AddLink(DeadLetterOf(place.stored.settings));
}

void CatalogState::SetSettings(SubscriptionEntry* subscription,
                               protocol::SubscriptionSettings settings) {
  RemoveLink(DeadLetterOf(subscription->stored.settings));
  subscription->stored.settings = std::move(settings);
  AddLink(DeadLetterOf(subscription->stored.settings));
}

void CatalogState::EraseSubscription(TopicEntry* entry, const std::string& name) {
  const auto found = entry->subscriptions.find(name);
  DT_CHECK(found != entry->subscriptions.end());
  RemoveLink(DeadLetterOf(found->second.stored.settings));
  entry->subscriptions.erase(found);
}

void CatalogState::WriteState() {
  const StoredState state = {.next_subscription = next_subscription_,
                             .longest_retention_ms = longest_retention_ms_};
  WriteObject(ObjectKind::kCatalog, std::string(kStateName), EncodeState(state),
              Durability::kSynced);
}

void CatalogState::Write(const SubscriptionEntry& entry) {
  DT_CHECK(entry.stored.topic != TopicId{});
  const bool live = entry.stored.phase == SubscriptionPhase::kLive;
  WriteObject(ObjectKind::kSubscription, protocol::SubscriptionObjectName(entry.id),
              EncodeSubscription(entry.stored), live ? Durability::kBuffered : Durability::kSynced);
}

void CatalogState::Remove(const SubscriptionEntry& entry) {
  EraseObject(ObjectKind::kSubscription, protocol::SubscriptionObjectName(entry.id),
              Durability::kBuffered);
}

// ---- The snapshot ------------------------------------------------------------------------------

void CatalogState::Publish(const TopicPtr& topic) {
  const TopicPtr before = snapshot_.TopicOf(topic->id);
  if (before != nullptr && before->deleted) {
    DT_CHECK_GT(snapshot_.deleted_topics_, 0u);
    --snapshot_.deleted_topics_;
  }
  if (topic->deleted) ++snapshot_.deleted_topics_;
  const TopicSettings& settings = topic->settings;
  if (topic->quota != nullptr) topic->quota->max.store(settings.max_pending());
  if (topic->pace != nullptr) topic->pace->Set(settings.rate_per_s(), settings.burst());
  // The number has another name now.
  if (before != nullptr && before->name() != topic->name()) {
    snapshot_.topics_by_name_.Erase(before->name());
  }
  snapshot_.topics_by_name_.Set(topic);
  snapshot_.topics_by_id_.Set(topic);
  snapshot_changed_ = true;
}

void CatalogState::PublishLater(TopicPtr topic) {
  writes_->Then([this, topic = std::move(topic)](base::Now, bool ok) {
    if (ok) Publish(topic);
  });
}

void CatalogState::Publish(const SubscriptionPtr& subscription) {
  snapshot_.subscriptions_by_name_.Set(subscription);
  snapshot_.subscriptions_by_id_.Set(subscription);
  snapshot_changed_ = true;
}

void CatalogState::Unpublish(const SubscriptionPtr& subscription) {
  snapshot_.subscriptions_by_name_.Erase(
      std::pair(subscription->topic, absl::string_view(subscription->name)));
  snapshot_.subscriptions_by_id_.Erase(subscription->id);
  snapshot_changed_ = true;
}

std::shared_ptr<const Snapshot> CatalogState::TakeSnapshot() {
  if (!std::exchange(snapshot_changed_, false)) return nullptr;
  ++snapshot_.version_;
  auto shared = std::make_shared<Snapshot>();
  shared->version_ = snapshot_.version_;
  shared->deleted_topics_ = snapshot_.deleted_topics_;
  shared->counted_topics_ = counted_;
  shared->topics_by_name_ = snapshot_.topics_by_name_.Share();
  shared->ends_ = snapshot_.ends_.Share();
  shared->topics_by_id_ = snapshot_.topics_by_id_.Share();
  shared->subscriptions_by_name_ = snapshot_.subscriptions_by_name_.Share();
  shared->subscriptions_by_id_ = snapshot_.subscriptions_by_id_.Share();
  return shared;
}

void CatalogState::CheckInvariants() const {
  DT_CHECK_EQ(by_id_.size(), by_name_.size());
  snapshot_.ends_.CheckInvariants();
  size_t ends = 0;
  snapshot_.topics_by_name_.CheckInvariants();
  snapshot_.topics_by_id_.CheckInvariants();
  snapshot_.subscriptions_by_name_.CheckInvariants();
  snapshot_.subscriptions_by_id_.CheckInvariants();
  DT_CHECK_EQ(snapshot_.topics_by_name_.size(), snapshot_.topics_by_id_.size());
  DT_CHECK_EQ(snapshot_.subscriptions_by_name_.size(), snapshot_.subscriptions_by_id_.size());
  size_t listened = 0;
  size_t counted = 0;
  absl::flat_hash_map<uint32_t, size_t> links;
  const auto link = [&links](TopicId to) {
    if (to != TopicId{}) ++links[static_cast<uint32_t>(to)];
  };
  for (const auto& [id, entry] : by_id_) {
    DT_CHECK_EQ(static_cast<uint32_t>(entry->topic->id), id);
    DT_CHECK(by_name_.at(entry->topic->name()) == entry.get());
    if (entry->listed_ms.has_value()) {
      ++ends;
      DT_CHECK(entry->topic->deleted && entry->phase == TopicPhase::kDeleted);
      DT_CHECK(!Counts(*entry->topic) && entry->subscriptions.empty());
      DT_CHECK(snapshot_.ends_.Find(NameEnd{*entry->listed_ms, entry->topic->id}) != nullptr);
    }
    DT_CHECK(entry->nameless.has_value() || !entry->subscriptions.empty());
    if (Listened(*entry->topic)) ++listened;
    if (Counts(*entry->topic)) ++counted;
    if (!entry->topic->deleted) link(entry->topic->dead_letters);
    for (const auto& [name, subscription] : entry->subscriptions) {
      DT_CHECK(name == subscription.stored.name && subscription.id != SubscriptionId{});
      DT_CHECK(subscription.stored.topic == entry->topic->id);
      link(DeadLetterOf(subscription.stored.settings));
    }
  }
  DT_CHECK_EQ(listened, listened_);
  DT_CHECK_EQ(counted, counted_);
  DT_CHECK_EQ(ends, snapshot_.ends_.size());
  DT_CHECK(links == links_);
}

}  // namespace duetime::catalog
