// SPDX-License-Identifier: Apache-2.0
#include "server/api/topics/topic_registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "server/api/validation_error.h"
#include "server/base/check.h"
#include "server/base/error.h"

namespace duetime::api {

TopicRegistry::Topic TopicRegistry::View(const Entry& entry) {
  return {.id = entry.id,
          .name = entry.name,
          .durable = entry.durable,
          .revived = false,
          .deleted = entry.deleted,
          .settings = entry.settings,
          .quota = entry.quota,
          .pace = entry.pace,
          .dead_letters = entry.dead_letters,
          .makes_dead_letters = entry.makes_dead_letters};
}

// The shards share quota and pace, so they stay when the limit changes, also to none.
void TopicRegistry::SetSettings(const TopicSettings& settings, Entry* entry) {
  if (settings.dead_letter_topic != entry->settings.dead_letter_topic) entry->dead_letters = {};
  if (!settings.dead_letter_topic.empty()) entry->makes_dead_letters = true;
  entry->settings = settings;
  if (entry->quota == nullptr && settings.max_pending > 0) {
    entry->quota = std::make_shared<protocol::TopicQuota>();
  }
  if (entry->quota != nullptr) entry->quota->max.store(settings.max_pending);
  if (entry->pace == nullptr && settings.rate_per_s > 0) {
    entry->pace = std::make_shared<protocol::TopicPace>();
  }
  if (entry->pace != nullptr) entry->pace->Set(settings.rate_per_s, settings.burst);
}

void TopicRegistry::Revive(Entry* entry) {
  entry->deleted = false;
  SetSettings({}, entry);
  --deleted_;
}

TopicRegistry::Entry* TopicRegistry::Add(storage::TopicId id, absl::string_view name) {
  Entry fresh;
  fresh.id = id;
  fresh.name = std::string(name);
  entries_.push_back(std::move(fresh));
  Entry* entry = &entries_.back();
  DT_CHECK(by_name_.emplace(entry->name, entry).second);
  DT_CHECK(by_id_.emplace(static_cast<uint32_t>(id), entry).second);
  sorted_.emplace(entry->name, entry);
  next_id_ = std::max(next_id_, static_cast<uint32_t>(id) + 1);
  return entry;
}

TopicRegistry::Entry* TopicRegistry::Known(absl::string_view name) {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : found->second;
}

void TopicRegistry::Load(const std::vector<std::pair<storage::TopicId, std::string>>& topics,
                         const std::vector<std::pair<std::string, TopicObject>>& objects) {
  base::MutexLock lock(&mutex_);
  DT_CHECK(entries_.empty());
  for (const auto& [id, name] : topics) Add(id, name)->durable = true;
  durable_ = entries_.size();
  for (const auto& [name, object] : objects) {
    Entry* entry = Known(name);
    // Made on purpose and never used: its name is not in the table of names yet.
    if (entry == nullptr) entry = Add(storage::TopicId{next_id_}, name);
    SetSettings(object.settings, entry);
    entry->deleted = object.deleted;
    if (object.deleted) ++deleted_;
  }
  // What there is was made because it was needed.
  for (Entry& entry : entries_) {
    const Entry* dead_letters = Known(DeadLettersName(View(entry)));
    if (dead_letters == nullptr || entry.deleted) continue;
    entry.dead_letters = dead_letters->id;
    entry.makes_dead_letters = true;
  }
}

absl::Status TopicRegistry::Resolve(absl::string_view name, Use use, Topic* topic) {
  base::MutexLock lock(&mutex_);
  Entry* entry = Known(name);
  const bool create = use == Use::kCreate || auto_create_;
  if ((entry == nullptr || entry->deleted) && !create) return TopicNotFoundError(name);
  bool revived = false;
  if (entry == nullptr) {
    if (entries_.size() >= topics_max_ ||
        (use == Use::kSubscribe && entries_.size() - durable_ >= topics_max_ / 10 + 1)) {
      return base::MakeError(absl::StatusCode::kResourceExhausted,
                             absl::StrCat("too many topics, limit ", topics_max_),
                             {.reason = "TOPIC_LIMIT",
                              .field = "",
                              .metadata = {{"limit", absl::StrCat(topics_max_)}},
                              .retry_after_ms = 0});
    }
    if (use == Use::kLook) {
      *topic = {.id = {}, .name = name, .durable = false, .settings = {}, .quota = nullptr};
      return absl::OkStatus();
    }
    entry = Add(storage::TopicId{next_id_}, name);
  } else if (entry->deleted && use != Use::kLook) {
    Revive(entry);
    revived = true;
  }
  *topic = View(*entry);
  topic->revived = revived;
  return absl::OkStatus();
}

std::optional<TopicRegistry::Topic> TopicRegistry::Find(absl::string_view name) {
  base::MutexLock lock(&mutex_);
  const Entry* entry = Known(name);
  if (entry == nullptr || entry->deleted) return std::nullopt;
  return View(*entry);
}

std::optional<TopicRegistry::Topic> TopicRegistry::FindEvenIfDeleted(absl::string_view name) {
  base::MutexLock lock(&mutex_);
  const Entry* entry = Known(name);
  if (entry == nullptr) return std::nullopt;
  return View(*entry);
}

std::optional<absl::string_view> TopicRegistry::Name(storage::TopicId id) {
  base::MutexLock lock(&mutex_);
  const auto found = by_id_.find(static_cast<uint32_t>(id));
  if (found == by_id_.end()) return std::nullopt;
  return absl::string_view(found->second->name);
}

void TopicRegistry::MarkDurable(storage::TopicId id) {
  base::MutexLock lock(&mutex_);
  const auto found = by_id_.find(static_cast<uint32_t>(id));
  DT_CHECK(found != by_id_.end());
  if (!std::exchange(found->second->durable, true)) ++durable_;
}

std::optional<TopicRegistry::Topic> TopicRegistry::BeginChange(absl::string_view name) {
  base::MutexLock lock(&mutex_);
  Entry* entry = Known(name);
  DT_CHECK(entry != nullptr);
  if (std::exchange(entry->changing, true)) return std::nullopt;
  entry->used = false;
  return View(*entry);
}

bool TopicRegistry::Change(absl::string_view name, const TopicObject& object) {
  base::MutexLock lock(&mutex_);
  Entry* entry = Known(name);
  DT_CHECK(entry != nullptr && entry->changing);
  if (object.deleted && entry->used) return false;
  SetSettings(object.settings, entry);
  if (object.deleted != entry->deleted) {
    entry->deleted = object.deleted;
    deleted_ = object.deleted ? deleted_ + 1 : deleted_ - 1;
  }
  version_.fetch_add(1, std::memory_order_release);
  return true;
}

void TopicRegistry::EndChange(absl::string_view name) {
  base::MutexLock lock(&mutex_);
  Entry* entry = Known(name);
  DT_CHECK(entry != nullptr && entry->changing);
  entry->changing = false;
}

bool TopicRegistry::NoteUsed(storage::TopicId id) {
  base::MutexLock lock(&mutex_);
  const auto found = by_id_.find(static_cast<uint32_t>(id));
  DT_CHECK(found != by_id_.end());
  Entry* const entry = found->second;
  entry->used = true;
  if (!entry->deleted) return false;
  Revive(entry);
  return true;
}

std::string TopicRegistry::DeadLettersName(const Topic& topic) {
  if (!topic.settings.dead_letter_topic.empty()) return topic.settings.dead_letter_topic;
  if (topic.name.size() + kDeadLetterSuffix.size() > kTopicBytesMax) return "";
  return absl::StrCat(topic.name, kDeadLetterSuffix);
}

bool TopicRegistry::SetDeadLetters(storage::TopicId topic, const Topic& dead_letters) {
  base::MutexLock lock(&mutex_);
  const auto found = by_id_.find(static_cast<uint32_t>(topic));
  DT_CHECK(found != by_id_.end());
  Entry* const entry = found->second;
  entry->makes_dead_letters = true;
  if (DeadLettersName(View(*entry)) != dead_letters.name) return false;
  entry->dead_letters = dead_letters.id;
  return true;
}

std::vector<TopicRegistry::Topic> TopicRegistry::List(absl::string_view prefix,
                                                      absl::string_view after, size_t limit) {
  base::MutexLock lock(&mutex_);
  std::vector<Topic> topics;
  auto next =
      after.empty() || after < prefix ? sorted_.lower_bound(prefix) : sorted_.upper_bound(after);
  for (; next != sorted_.end() && topics.size() < limit; ++next) {
    if (!absl::StartsWith(next->first, prefix)) break;
    if (!next->second->deleted) topics.push_back(View(*next->second));
  }
  return topics;
}

std::vector<storage::TopicId> TopicRegistry::Ids() {
  base::MutexLock lock(&mutex_);
  std::vector<storage::TopicId> ids;
  ids.reserve(entries_.size());
  for (const Entry& entry : entries_) ids.push_back(entry.id);
  return ids;
}

std::vector<TopicRegistry::Topic> TopicRegistry::Special() {
  base::MutexLock lock(&mutex_);
  std::vector<Topic> topics;
  for (const Entry& entry : entries_) {
    const bool special =
        entry.settings != TopicSettings{} || entry.dead_letters != storage::TopicId{};
    if (entry.deleted || special) topics.push_back(View(entry));
  }
  return topics;
}

size_t TopicRegistry::size() const {
  base::MutexLock lock(&mutex_);
  return entries_.size() - deleted_;
}

}  // namespace duetime::api
