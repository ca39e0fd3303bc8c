// SPDX-License-Identifier: Apache-2.0
#include "server/catalog/snapshot.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "server/base/check.h"

namespace duetime::catalog {

std::string DeadLettersName(const Topic& topic) {
  DT_CHECK(topic.name_text != nullptr);
  if (!topic.settings.dead_letter_topic().empty()) return topic.settings.dead_letter_topic();
  return DefaultDeadLettersName(topic.name());
}

std::string DefaultDeadLettersName(absl::string_view topic) {
  if (topic.size() + kDeadLetterSuffix.size() > kTopicBytesMax) return "";
  return absl::StrCat(topic, kDeadLetterSuffix);
}

TopicPtr Snapshot::FindTopic(absl::string_view name) const {
  const TopicPtr* const found = topics_by_name_.Find(name);
  return found != nullptr && (*found)->exists() ? *found : nullptr;
}

TopicPtr Snapshot::FindTopicEvenIfDeleted(absl::string_view name) const {
  const TopicPtr* const found = topics_by_name_.Find(name);
  return found == nullptr ? nullptr : *found;
}

TopicPtr Snapshot::TopicOf(storage::TopicId id) const {
  const TopicPtr* const found = topics_by_id_.Find(id);
  return found == nullptr ? nullptr : *found;
}

bool Snapshot::LinksDeadLetters(const Topic& topic) const {
  if (topic.dead_letters == storage::TopicId{}) return false;
  const TopicPtr* const target = topics_by_id_.Find(topic.dead_letters);
  return target != nullptr && (*target)->exists();
}

absl::string_view Snapshot::TopicName(storage::TopicId id) const {
  const TopicPtr* const found = topics_by_id_.Find(id);
  return found == nullptr ? absl::string_view() : (*found)->name();
}

size_t Snapshot::ended_names(uint64_t now_ms, size_t limit) const {
  size_t ended = 0;
  ends_.VisitFrom(NameEnd{}, [&](const NameEnd& end) {
    if (ended == limit || end.free_ms > now_ms) return false;
    ++ended;
    return true;
  });
  return ended;
}

absl::Status Snapshot::CheckRoom(size_t topics_max, uint64_t now_ms, size_t counted, size_t names,
                                 const TopicNeed& need) const {
  // Only with so many names does it matter how many have ended.
  const size_t more = names + need.names - std::min(names + need.names, 2 * topics_max);
  if (more > 0) names -= ended_names(now_ms, more);
  return CheckTopicRoom(topics_max, counted, names, need);
}

std::vector<TopicPtr> Snapshot::ListTopics(absl::string_view prefix, absl::string_view after,
                                           size_t limit) const {
  std::vector<TopicPtr> list;
  if (limit == 0) return list;
  topics_by_name_.VisitFrom(std::max(prefix, after), [&](const TopicPtr& topic) {
    if (!absl::StartsWith(topic->name(), prefix)) return false;
    const bool wanted = after.empty() || topic->name() > after;
    if (wanted && topic->exists()) list.push_back(topic);
    return list.size() < limit;
  });
  DT_CHECK_LE(list.size(), limit);
  return list;
}

std::vector<storage::TopicId> Snapshot::TopicIds() const {
  std::vector<storage::TopicId> ids;
  ids.reserve(topics_by_id_.size());
  topics_by_id_.VisitFrom(storage::TopicId{}, [&](const TopicPtr& topic) {
    ids.push_back(topic->id);
    return true;
  });
  DT_CHECK_EQ(ids.size(), topics_by_name_.size());
  return ids;
}

bool Snapshot::ReservesName(storage::TopicId id) const {
  bool found = false;
  topics_by_id_.VisitFrom(storage::TopicId{}, [&](const TopicPtr& topic) {
    found = !topic->deleted && topic->dead_letters == id;
    return !found;
  });
  if (found) return true;
  subscriptions_by_id_.VisitFrom(storage::SubscriptionId{}, [&](const SubscriptionPtr& of) {
    found = protocol::DeadLetterOf(of->settings) == id;
    return !found;
  });
  return found;
}

SubscriptionPtr Snapshot::FindSubscription(storage::TopicId topic, absl::string_view name) const {
  const SubscriptionPtr* const found = subscriptions_by_name_.Find(std::pair(topic, name));
  return found == nullptr ? nullptr : *found;
}

std::vector<SubscriptionPtr> Snapshot::ListSubscriptions(storage::TopicId topic,
                                                         absl::string_view after,
                                                         size_t limit) const {
  std::vector<SubscriptionPtr> list;
  if (limit == 0) return list;
  subscriptions_by_name_.VisitFrom(std::pair(topic, after), [&](const SubscriptionPtr& next) {
    if (next->topic != topic) return false;
    if (next->name > after) list.push_back(next);
    return list.size() < limit;
  });
  DT_CHECK_LE(list.size(), limit);
  return list;
}

std::string Snapshot::SubscriptionName(storage::SubscriptionId id) const {
  const SubscriptionPtr* const found = subscriptions_by_id_.Find(id);
  return found == nullptr ? std::string() : (*found)->name;
}

namespace {

uint64_t NextCell() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1) + 1;
}

}  // namespace

SnapshotCell::SnapshotCell() : cell_(NextCell()), newest_(std::make_shared<Snapshot>()) {}

void SnapshotCell::Publish(std::shared_ptr<const Snapshot> snapshot) {
  DT_CHECK(snapshot != nullptr);
  DT_CHECK_GT(snapshot->version(), version_.load());
  base::MutexLock lock(&mutex_);
  const uint64_t version = snapshot->version();
  newest_ = std::move(snapshot);
  version_.store(version, std::memory_order_release);
}

const Snapshot& SnapshotCell::Read() const {
  struct Seen {
    uint64_t cell = 0;
    std::shared_ptr<const Snapshot> snapshot;
  };
  thread_local Seen seen;
  if (seen.cell == cell_ && seen.snapshot->version() == version()) return *seen.snapshot;
  base::MutexLock lock(&mutex_);
  seen.cell = cell_;
  seen.snapshot = newest_;
  DT_CHECK(seen.snapshot != nullptr);
  return *seen.snapshot;
}

}  // namespace duetime::catalog
