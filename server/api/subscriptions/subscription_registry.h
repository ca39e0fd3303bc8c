// SPDX-License-Identifier: Apache-2.0
//
// SubscriptionRegistry: the names of subscriptions, their numbers in this data directory, and their
// settings.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/base/mutex.h"
#include "server/protocol/commands.h"
#include "storage/types.h"

namespace duetime::api {

// Knows the subscriptions that every shard has. Decides nothing of what is on disk: a change is
// first made in all shards and then told here.
//
// A topic always has one subscription at least. As long as nobody has named one it is nameless, and
// is not in what Find and List return; the first one that is made takes its number.
//
// Guarantees: (1) a number is given once, also across restarts; (2) at most per_topic_max names in
// a topic; (3) one change of a topic's subscriptions at a time. Cost: one short lock and two
// look-ups. Thread-safe.
class SubscriptionRegistry {
 public:
  struct Subscription {
    storage::SubscriptionId id{};
    storage::TopicId topic{};
    std::string name;
    protocol::SubscriptionSettings settings;
    uint64_t create_ms = 0;
    // Given by the registry: tells it, in this run, from others that had its name and number before
    // or get them later.
    uint64_t made = 0;
  };
  // What one shard lacks of a change that was under way when the server ended.
  struct Repair {
    uint16_t shard = 0;
    protocol::SubscriptionCommand command;
  };

  explicit SubscriptionRegistry(size_t per_topic_max) : per_topic_max_(per_topic_max) {}
  SubscriptionRegistry(const SubscriptionRegistry&) = delete;
  SubscriptionRegistry& operator=(const SubscriptionRegistry&) = delete;

  // Takes over what the shards have, by shard, and returns what is to be told to them so that they
  // agree. A change that reached some of them only was never answered: a deletion and a creation
  // are completed, of other settings those of the first shard win. Call once, before anything else.
  // More than per_topic_max are kept (the limit may have been lowered); then no new ones are made.
  std::vector<Repair> Load(const std::vector<std::vector<protocol::SubscriptionState>>& shards);

  // Nothing if there is none of this name.
  std::optional<Subscription> Find(storage::TopicId topic, absl::string_view name);
  // Names greater than `after` in byte order, at most `limit`.
  std::vector<Subscription> List(storage::TopicId topic, absl::string_view after, size_t limit);
  // Empty if it is nameless or unknown.
  std::string Name(storage::SubscriptionId id);

  // True if what was found as `made` under this name was deleted since. `seen` is the version as of
  // which it was there, and is moved on, so that asking often costs nothing while nothing is
  // deleted.
  bool Gone(storage::TopicId topic, absl::string_view name, uint64_t made, uint64_t* seen);

  // Reserves the topic for one change of its subscriptions, until End. False if another one is
  // under way; then `resume` is called when it ends and those who asked before have had their turn,
  // on any thread, and must try again: the next one waits for it.
  bool Begin(storage::TopicId topic, std::function<void()> resume);
  // The change was made, or given up. REQUIRES: it was begun.
  void End(storage::TopicId topic);

  // The number for one more subscription: that of the nameless one, or a new one, which is used up
  // by this. RESOURCE_EXHAUSTED SUBSCRIPTION_LIMIT. REQUIRES (all below): a change was begun.
  absl::Status NextId(storage::TopicId topic, storage::SubscriptionId* id);
  // It is there in all shards, with these settings.
  void Put(const Subscription& subscription);
  // It is gone in all shards; or nameless again, if it was the last one. REQUIRES: it is there.
  void Remove(storage::TopicId topic, absl::string_view name);
  // Named ones of a topic.
  size_t CountOf(storage::TopicId topic);

  // Changes whenever a subscription may have gone.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  // With a name, of all topics.
  size_t size() const;

 private:
  struct TopicEntry {
    std::map<std::string, Subscription, std::less<>> by_name;
    // Nothing while there are named ones.
    std::optional<storage::SubscriptionId> nameless;
    bool changing = false;
    std::deque<std::function<void()>> waiting;
  };
  // One subscription as the shards have it: null where it is unknown.
  using Parts = std::vector<const protocol::SubscriptionState*>;

  TopicEntry& EntryOf(storage::TopicId topic) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Add(const Subscription& subscription) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LoadOne(storage::SubscriptionId id, const Parts& parts, std::vector<Repair>* repairs)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t per_topic_max_;
  std::atomic<uint64_t> version_{0};
  mutable base::Mutex mutex_;
  absl::flat_hash_map<storage::TopicId, TopicEntry> topics_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<storage::SubscriptionId, std::string> names_ ABSL_GUARDED_BY(mutex_);
  // Those below are the numbers of topics.
  uint32_t next_id_ ABSL_GUARDED_BY(mutex_) = uint32_t{1} << 31;
  uint64_t last_made_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace duetime::api
