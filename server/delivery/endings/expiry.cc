// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/endings/expiry.h"

#include <algorithm>
#include <utility>

#include "server/base/check.h"
#include "server/delivery/backlog/backlog_place.h"
#include "server/delivery/backlog/backlog_reader.h"
#include "server/delivery/delivery_states.h"
#include "server/delivery/endings/dead_letters.h"
#include "server/delivery/endings/message_ends.h"
#include "server/delivery/memory_share.h"
#include "server/delivery/store_reader.h"
#include "server/delivery/subscriptions/subscriptions.h"
#include "server/protocol/topic_quota.h"

namespace duetime::delivery {

using storage::BacklogRef;
using storage::LatePolicy;
using storage::MessageFlags;
using storage::MessageKey;
using storage::MessageRecord;

namespace {

// Of one step: the messages that it reads, the entries that it passes, and the topics that it
// visits.
constexpr storage::ScanLimit kPage{.entries = 200, .bytes = 1 << 20};
constexpr size_t kPassedPerStep = 20'000;
constexpr size_t kTopicsPerStep = 100;

}  // namespace

Expiry::Expiry(const Core& core, MessageEnds* ends, DeadLetters* dead_letters,
               BacklogReader* backlog_reader)
    : core_(core), ends_(ends), dead_letters_(dead_letters), backlog_reader_(backlog_reader) {}

bool Expiry::Expired(base::Now now, const MessageRecord& head) {
  return head.ttl_ms > 0 && now.wall_ms > head.header.deliver_ms + head.ttl_ms;
}

bool Expiry::End(base::Now now, EntryIndex index, LatePolicy policy) {
  if (policy == LatePolicy::kDeadLetter) {
    return dead_letters_->Make(now, index, storage::DeadLetterReason::kExpired, "") ==
           DeadLetters::Made::kYes;
  }
  if (policy != LatePolicy::kDrop) return false;
  ends_->BeginSettle(now, index, storage::EndState::kExpired, storage::Durability::kBuffered);
  core_.writes.Then([this, index](base::Now, bool accepted) {
    if (!accepted) return;
    DT_CHECK(core_.table[index].state == EntryState::kEnding);
    ++core_.stats.expired;
    core_.states.Remove(index);
  });
  return true;
}

void Expiry::AddLimited(storage::TopicId topic) {
  if (next_walk_mono_ms_.try_emplace(topic, 0).second) limited_.push_back(topic);
}

bool Expiry::Step(base::Now now) {
  if (!walk_.has_value()) BeginWalk(now);
  if (!walk_.has_value()) return false;
  const bool in_memory = walk_->entry < core_.table.capacity();
  const bool ended = in_memory ? WalkMemory(now) : WalkDisk(now);
  if (walk_->entry < core_.table.capacity() || !walk_->subscriptions.empty()) return ended;
  next_walk_mono_ms_[walk_->topic] = now.mono_ms + kWalkPeriodMs;
  walk_.reset();
  return false;
}

void Expiry::BeginWalk(base::Now now) {
  for (size_t i = std::min(limited_.size(), kTopicsPerStep); i > 0; --i) {
    const storage::TopicId id = limited_.front();
    limited_.pop_front();
    limited_.push_back(id);
    const protocol::TopicQuota* const quota = core_.writer.QuotaOf(id);
    if (quota == nullptr || quota->HasRoom() || now.mono_ms < next_walk_mono_ms_[id]) continue;
    const Topic& topic = *core_.subscriptions.TopicOf(id);
    if (topic.settings->paused_by_restore()) continue;
    walk_ = Walk{.topic = id, .entry = 0, .subscriptions = {}, .place = {}};
    for (const Subscription* const subscription : topic.subscriptions) {
      walk_->subscriptions.push_back(subscription->state.id);
    }
    return;
  }
}

bool Expiry::Locked(const storage::MessageId& id) const {
  return core_.key_locks.Locked(id) || ends_->AnyEnding(id);
}

std::optional<LatePolicy> Expiry::PolicyOf(base::Now now, const MessageKey& key,
                                           std::string* bytes) {
  auto record = core_.reader.Record(key);
  // A damaged or stale message is for the part that delivers it.
  if (!record.ok() || !record->has_value()) return std::nullopt;
  *bytes = **std::move(record);
  const auto head = StoreReader::HeadOf(*bytes, MessageFlags::kExpires);
  if (!head.has_value() || !Expired(now, *head) || head->late_policy == LatePolicy::kDeliver) {
    return std::nullopt;
  }
  return head->late_policy;
}

bool Expiry::WalkMemory(base::Now now) {
  bool ended = false;
  size_t read = 0;
  for (size_t passed = 0; passed < kPassedPerStep && read < kPage.entries; ++passed) {
    if (walk_->entry >= core_.table.capacity() || !dead_letters_->has_budget()) break;
    const EntryIndex index = walk_->entry++;
    const PendingDelivery& entry = core_.table[index];
    if (entry.state != EntryState::kReady || entry.subscription->topic->id != walk_->topic ||
        Locked(entry.id)) {
      continue;
    }
    ++read;
    std::string record;
    const auto policy = PolicyOf(now, entry.key(), &record);
    if (!policy.has_value()) continue;
    core_.table.Learn(index, record);
    if (End(now, index, *policy)) ended = true;
  }
  return ended;
}

bool Expiry::WalkDisk(base::Now now) {
  Subscription* const subscription = core_.subscriptions.Find(walk_->subscriptions.back());
  const auto next = [this] {
    walk_->subscriptions.pop_back();
    walk_->place = {};
    return false;
  };
  if (subscription == nullptr || subscription->state.deleting || !subscription->backlog.any()) {
    return next();
  }
  const storage::ScanLimit limit{.entries = std::min(kPage.entries, core_.memory.RoomToReadBack()),
                                 .bytes = kPage.bytes};
  if (subscription->reading || limit.entries == 0) return next();
  const MessageKey from = std::max(walk_->place, subscription->backlog.first());
  const auto page = core_.reader.BacklogPage(subscription->state.id, from, limit);
  if (!page.ok()) return next();
  if (page->items.empty()) {
    if (!page->next.has_value()) return next();
    walk_->place = *page->next;
    return false;
  }
  bool ended = false;
  for (const BacklogRef& item : page->items) {
    if (!dead_letters_->has_budget()) return true;
    walk_->place = After(item.key);
    if (Locked(item.key.id) || core_.table.Find(item.key.id, subscription) != kNoEntry) continue;
    std::string record;
    const auto policy = PolicyOf(now, KeyOf(item), &record);
    if (!policy.has_value()) continue;
    const EntryIndex index = backlog_reader_->TakeListed(item, subscription);
    if (!core_.reader.ok()) return false;
    if (index == kNoEntry) continue;
    if (End(now, index, *policy)) {
      subscription->listed.Taken(item.key);
      ended = true;
    } else {
      core_.states.Remove(index);
    }
  }
  return ended;
}

}  // namespace duetime::delivery
