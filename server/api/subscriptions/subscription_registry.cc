// SPDX-License-Identifier: Apache-2.0
#include "server/api/subscriptions/subscription_registry.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "server/base/check.h"
#include "server/base/error.h"
#include "server/protocol/commands.h"

namespace duetime::api {

using protocol::SubscriptionCommand;
using protocol::SubscriptionState;
using storage::SubscriptionId;
using storage::TopicId;

SubscriptionRegistry::TopicEntry& SubscriptionRegistry::EntryOf(TopicId topic) {
  const auto [it, fresh] = topics_.try_emplace(topic);
  if (fresh) it->second.nameless = storage::FirstSubscription(topic);
  return it->second;
}

void SubscriptionRegistry::Add(const Subscription& subscription) {
  TopicEntry& entry = EntryOf(subscription.topic);
  entry.nameless.reset();
  Subscription& there = entry.by_name[subscription.name];
  const uint64_t made = there.made != 0 ? there.made : ++last_made_;
  there = subscription;
  there.made = made;
  names_[subscription.id] = subscription.name;
}

void SubscriptionRegistry::LoadOne(SubscriptionId id, const Parts& parts,
                                   std::vector<Repair>* repairs) {
  const SubscriptionState* named = nullptr;
  const SubscriptionState* any = nullptr;
  bool deleting = false;
  // Whether it begins at the beginning, wherever it is known.
  bool from_now = true;
  for (const SubscriptionState* part : parts) {
    if (part == nullptr) continue;
    any = part;
    if (named == nullptr && !part->name.empty()) named = part;
    deleting |= part->deleting || part->deleted;
    from_now &= part->start != storage::MessageId{};
  }
  DT_CHECK(any != nullptr);
  if (!deleting && named == nullptr) {
    EntryOf(any->topic).nameless = id;
    return;
  }
  if (!deleting) {
    Add({.id = id,
         .topic = named->topic,
         .name = named->name,
         .settings = named->settings,
         .create_ms = named->create_ms});
  }
  for (uint16_t shard = 0; shard < parts.size(); ++shard) {
    const SubscriptionState* part = parts[shard];
    SubscriptionCommand command;
    command.position = shard;
    if (deleting) {
      if (part == nullptr || part->deleting || part->deleted) continue;
      command.kind = SubscriptionCommand::Kind::kDelete;
      command.state = *part;
    } else {
      const bool known = part != nullptr && !part->name.empty();
      if (known && part->settings == named->settings) continue;
      command.kind =
          known ? SubscriptionCommand::Kind::kUpdate : SubscriptionCommand::Kind::kCreate;
      command.state = *named;
      command.from_now = from_now;
    }
    repairs->push_back({.shard = shard, .command = std::move(command)});
  }
}

std::vector<SubscriptionRegistry::Repair> SubscriptionRegistry::Load(
    const std::vector<std::vector<SubscriptionState>>& shards) {
  base::MutexLock lock(&mutex_);
  DT_CHECK(topics_.empty());
  std::map<uint32_t, Parts> by_id;
  for (size_t shard = 0; shard < shards.size(); ++shard) {
    for (const SubscriptionState& state : shards[shard]) {
      Parts& parts = by_id[static_cast<uint32_t>(state.id)];
      parts.resize(shards.size());
      parts[shard] = &state;
    }
  }
  std::vector<Repair> repairs;
  // Topics that have one are not those of which nobody has heard.
  for (const auto& [id, parts] : by_id) {
    for (const SubscriptionState* part : parts) {
      if (part != nullptr) topics_.try_emplace(part->topic);
    }
  }
  for (const auto& [id, parts] : by_id) {
    if (id >= next_id_) next_id_ = id + 1;
    LoadOne(SubscriptionId{id}, parts, &repairs);
  }
  return repairs;
}

std::optional<SubscriptionRegistry::Subscription> SubscriptionRegistry::Find(
    TopicId topic, absl::string_view name) {
  base::MutexLock lock(&mutex_);
  const auto entry = topics_.find(topic);
  if (entry == topics_.end()) return std::nullopt;
  const auto found = entry->second.by_name.find(name);
  if (found == entry->second.by_name.end()) return std::nullopt;
  return found->second;
}

std::vector<SubscriptionRegistry::Subscription> SubscriptionRegistry::List(TopicId topic,
                                                                           absl::string_view after,
                                                                           size_t limit) {
  base::MutexLock lock(&mutex_);
  std::vector<Subscription> list;
  const auto entry = topics_.find(topic);
  if (entry == topics_.end()) return list;
  const auto& by_name = entry->second.by_name;
  for (auto next = by_name.upper_bound(after); next != by_name.end() && list.size() < limit;
       ++next) {
    list.push_back(next->second);
  }
  return list;
}

std::string SubscriptionRegistry::Name(SubscriptionId id) {
  base::MutexLock lock(&mutex_);
  const auto found = names_.find(id);
  return found == names_.end() ? std::string() : found->second;
}

bool SubscriptionRegistry::Gone(TopicId topic, absl::string_view name, uint64_t made,
                                uint64_t* seen) {
  const uint64_t now = version();
  if (now == *seen) return false;
  const std::optional<Subscription> found = Find(topic, name);
  if (!found.has_value() || found->made != made) return true;
  *seen = now;
  return false;
}

bool SubscriptionRegistry::Begin(TopicId topic, std::function<void()> resume) {
  base::MutexLock lock(&mutex_);
  TopicEntry& entry = EntryOf(topic);
  if (!entry.changing) return entry.changing = true;
  entry.waiting.push_back(std::move(resume));
  return false;
}

void SubscriptionRegistry::End(TopicId topic) {
  std::function<void()> resume;
  {
    base::MutexLock lock(&mutex_);
    TopicEntry& entry = EntryOf(topic);
    DT_CHECK(entry.changing);
    entry.changing = false;
    if (entry.waiting.empty()) return;
    resume = std::move(entry.waiting.front());
    entry.waiting.pop_front();
  }
  resume();
}

absl::Status SubscriptionRegistry::NextId(TopicId topic, SubscriptionId* id) {
  base::MutexLock lock(&mutex_);
  TopicEntry& entry = EntryOf(topic);
  DT_CHECK(entry.changing);
  // After two thousand million of them there are no more numbers; 0 is what comes after the last.
  if (entry.by_name.size() >= per_topic_max_ || next_id_ == 0) {
    return base::MakeError(
        absl::StatusCode::kResourceExhausted,
        absl::StrCat("too many subscriptions of a topic, limit ", per_topic_max_),
        {.reason = "SUBSCRIPTION_LIMIT",
         .field = "",
         .metadata = {{"limit", absl::StrCat(per_topic_max_)}},
         .retry_after_ms = 0});
  }
  *id = entry.nameless.has_value() ? *entry.nameless : SubscriptionId{next_id_++};
  return absl::OkStatus();
}

void SubscriptionRegistry::Put(const Subscription& subscription) {
  base::MutexLock lock(&mutex_);
  DT_CHECK(EntryOf(subscription.topic).changing);
  Add(subscription);
}

void SubscriptionRegistry::Remove(TopicId topic, absl::string_view name) {
  base::MutexLock lock(&mutex_);
  TopicEntry& entry = EntryOf(topic);
  const auto found = entry.by_name.find(name);
  DT_CHECK(entry.changing && found != entry.by_name.end());
  const SubscriptionId id = found->second.id;
  entry.by_name.erase(found);
  names_.erase(id);
  if (entry.by_name.empty()) entry.nameless = id;
  version_.fetch_add(1, std::memory_order_release);
}

size_t SubscriptionRegistry::CountOf(TopicId topic) {
  base::MutexLock lock(&mutex_);
  return EntryOf(topic).by_name.size();
}

size_t SubscriptionRegistry::size() const {
  base::MutexLock lock(&mutex_);
  return names_.size();
}

}  // namespace duetime::api
