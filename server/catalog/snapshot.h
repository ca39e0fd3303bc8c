// SPDX-License-Identifier: Apache-2.0
//
// Snapshot: one version of all topics and subscriptions. SnapshotCell: holds the newest one.
#pragma once

#include <algorithm>
#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/base/mutex.h"
#include "server/catalog/catalog_errors.h"
#include "server/catalog/sorted_blocks.h"
#include "server/catalog/topic.h"

namespace duetime::catalog {

// A deleted topic whose number a new topic may take over, from this time on.
struct NameEnd {
  uint64_t free_ms = 0;
  storage::TopicId topic{};

  friend auto operator<=>(const NameEnd&, const NameEnd&) = default;
};

// One version of all topics and subscriptions. Immutable; any thread may read it. Look-ups take no
// lock.
class Snapshot {
 public:
  // ---- Topics

  // Null if there is no topic of this name, or if it is deleted.
  TopicPtr FindTopic(absl::string_view name) const;
  // Null if no topic has this name. A deleted topic may still have messages and tombstones.
  TopicPtr FindTopicEvenIfDeleted(absl::string_view name) const;
  TopicPtr TopicOf(storage::TopicId id) const;
  // True if the topic's dead-letter topic exists and the shards know it.
  bool LinksDeadLetters(const Topic& topic) const;
  // Empty if the topic is unknown. The view is valid as long as the snapshot.
  absl::string_view TopicName(storage::TopicId id) const;
  // Returns the first `limit` topics whose names begin with `prefix` and are greater than `after`,
  // in byte order, without deleted topics.
  std::vector<TopicPtr> ListTopics(absl::string_view prefix, absl::string_view after,
                                   size_t limit) const;
  // The numbers of all topics, deleted ones included.
  std::vector<storage::TopicId> TopicIds() const;
  size_t topics() const { return topics_by_name_.size() - deleted_topics_; }
  // The number of topic names, including deleted topics.
  size_t names() const { return topics_by_name_.size(); }
  // The topics that topics_max counts: those that exist, and names that are reserved for dead
  // letters. May be ahead of the other numbers by changes that are not committed.
  size_t counted() const { return counted_topics_; }
  // The names of deleted topics that have ended at `now_ms`, at most `limit`: new topics take these
  // numbers over. Cost: O(result).
  size_t ended_names(uint64_t now_ms, size_t limit = std::numeric_limits<size_t>::max()) const;
  // RESOURCE_EXHAUSTED TOPIC_LIMIT if there is no room for `need`, as CheckTopicRoom. `counted` and
  // `names` are those of this version, or of changes ahead of it.
  absl::Status CheckRoom(size_t topics_max, uint64_t now_ms, size_t counted, size_t names,
                         const TopicNeed& need) const;
  // The names of deleted topics that have not ended.
  size_t deleted_names(uint64_t now_ms) const {
    return names() - std::min(names(), counted() + ended_names(now_ms));
  }
  // True if the topic is the dead-letter topic of a topic or subscription that exists. Cost:
  // O(topics and subscriptions).
  bool ReservesName(storage::TopicId id) const;

  // ---- Subscriptions

  // Null if the topic has no subscription of this name.
  SubscriptionPtr FindSubscription(storage::TopicId topic, absl::string_view name) const;
  // Returns the first `limit` subscriptions whose names are greater than `after`, in byte order.
  std::vector<SubscriptionPtr> ListSubscriptions(storage::TopicId topic, absl::string_view after,
                                                 size_t limit) const;
  // Empty if the subscription is unknown, or no client has named it.
  std::string SubscriptionName(storage::SubscriptionId id) const;
  size_t subscriptions() const { return subscriptions_by_id_.size(); }

  // Counts the versions, from 1.
  uint64_t version() const { return version_; }

 private:
  // Builds the versions.
  friend class CatalogState;

  struct NameOfTopic {
    absl::string_view operator()(const TopicPtr& topic) const { return topic->name(); }
  };
  struct IdOfTopic {
    storage::TopicId operator()(const TopicPtr& topic) const { return topic->id; }
  };
  struct NameOfSubscription {
    std::pair<storage::TopicId, absl::string_view> operator()(const SubscriptionPtr& of) const {
      return {of->topic, of->name};
    }
  };
  struct OfItself {
    NameEnd operator()(const NameEnd& end) const { return end; }
  };
  struct IdOfSubscription {
    storage::SubscriptionId operator()(const SubscriptionPtr& of) const { return of->id; }
  };

  uint64_t version_ = 0;
  SortedBlocks<TopicPtr, NameOfTopic> topics_by_name_;
  SortedBlocks<TopicPtr, IdOfTopic> topics_by_id_;
  SortedBlocks<SubscriptionPtr, NameOfSubscription> subscriptions_by_name_;
  SortedBlocks<SubscriptionPtr, IdOfSubscription> subscriptions_by_id_;
  // May be ahead of the topics by changes that are not committed.
  SortedBlocks<NameEnd, OfItself> ends_;
  size_t deleted_topics_ = 0;
  size_t counted_topics_ = 0;
};

// Holds the newest snapshot. The catalog's thread publishes; any thread reads.
class SnapshotCell {
 public:
  SnapshotCell();
  SnapshotCell(const SnapshotCell&) = delete;
  SnapshotCell& operator=(const SnapshotCell&) = delete;

  // REQUIRES: `snapshot` is newer than the previous one.
  void Publish(std::shared_ptr<const Snapshot> snapshot);

  // Returns the newest snapshot. Each thread keeps the last snapshot that it read, and takes the
  // lock only if there is a newer one. The reference is valid until the thread calls Read again.
  const Snapshot& Read() const;

  uint64_t version() const { return version_.load(std::memory_order_acquire); }

 private:
  // Distinguishes the cells of a process, because the snapshot that a thread keeps may be of
  // another cell.
  const uint64_t cell_;
  std::atomic<uint64_t> version_{0};
  mutable base::Mutex mutex_;
  std::shared_ptr<const Snapshot> newest_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace duetime::catalog
