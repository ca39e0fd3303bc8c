// SPDX-License-Identifier: Apache-2.0
#include "server/rpc/topic_registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/base/error.h"

namespace duetime::rpc {

TopicRegistry::Entry* TopicRegistry::Add(storage::TopicId id, absl::string_view name) {
  entries_.push_back({.id = id, .name = std::string(name), .durable = false});
  Entry* entry = &entries_.back();
  DT_CHECK(by_name_.emplace(entry->name, entry).second);
  DT_CHECK(by_id_.emplace(static_cast<uint32_t>(id), entry).second);
  next_id_ = std::max(next_id_, static_cast<uint32_t>(id) + 1);
  return entry;
}

void TopicRegistry::Load(const std::vector<std::pair<storage::TopicId, std::string>>& topics) {
  base::MutexLock lock(&mutex_);
  DT_CHECK(entries_.empty());
  for (const auto& [id, name] : topics) Add(id, name)->durable = true;
  durable_ = entries_.size();
}

absl::Status TopicRegistry::Resolve(absl::string_view name, Use use, Topic* topic) {
  base::MutexLock lock(&mutex_);
  const auto found = by_name_.find(name);
  const Entry* entry = nullptr;
  if (found != by_name_.end()) {
    entry = found->second;
  } else if (entries_.size() < topics_max_ &&
             (use == Use::kSchedule || entries_.size() - durable_ < topics_max_ / 10 + 1)) {
    entry = Add(storage::TopicId{next_id_}, name);
  } else {
    return base::MakeError(absl::StatusCode::kResourceExhausted,
                           absl::StrCat("too many topics, limit ", topics_max_),
                           {.reason = "TOPIC_LIMIT",
                            .field = "",
                            .metadata = {{"limit", absl::StrCat(topics_max_)}},
                            .retry_after_ms = 0});
  }
  *topic = {.id = entry->id, .name = entry->name, .durable = entry->durable};
  return absl::OkStatus();
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

size_t TopicRegistry::size() const {
  base::MutexLock lock(&mutex_);
  return entries_.size();
}

}  // namespace duetime::rpc
