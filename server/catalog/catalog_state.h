// SPDX-License-Identifier: Apache-2.0
//
// CatalogState: what the catalog has decided, and the snapshot of what is committed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/catalog/catalog_options.h"
#include "server/catalog/catalog_records.h"
#include "server/catalog/snapshot.h"
#include "server/catalog/topic.h"
#include "server/scheduler/pending_writes.h"
#include "storage/types.h"

namespace duetime::catalog {

// A subscription as it is decided. Without a name it is the one that every topic has until a client
// names one, and that the last deleted one leaves behind.
struct SubscriptionEntry {
  storage::SubscriptionId id{};
  StoredSubscription stored;
  uint64_t incarnation = 0;
};

// One topic as it is decided.
struct TopicEntry {
  // The newest decided version. Readers may not see it yet.
  TopicPtr topic;
  TopicPhase phase = TopicPhase::kLive;
  // By name. The nameless one is not in it.
  std::map<std::string, SubscriptionEntry, std::less<>> subscriptions;
  // The number for the next subscription, if the topic has a nameless one.
  std::optional<storage::SubscriptionId> nameless;
};

// Two views of the same tables. The entries hold what is decided: a command decides from them, and
// adds a record for each change. The snapshot holds what is committed: a continuation of the same
// batch publishes each version. The caller changes entries and writes records in one step, so that
// the records of a run add up to its entries.
//
// Guarantees: one name has one number and one number one name, for ever; numbers of subscriptions
// are given once. Thread safety: confined to the catalog's thread.
class CatalogState {
 public:
  // REQUIRES: `writes` outlives it.
  CatalogState(const CatalogOptions& options, scheduler::PendingWrites* writes);

  // ---- Topics

  // Null if there never was one of this name.
  TopicEntry* Find(absl::string_view name);
  bool Contains(storage::TopicId id) const { return by_id_.contains(static_cast<uint32_t>(id)); }
  // REQUIRES: the number is known.
  TopicEntry* Of(storage::TopicId id);
  size_t topics() const { return by_id_.size(); }
  // Entries in the order of their names. For the start.
  std::vector<TopicEntry*> All();

  // RESOURCE_EXHAUSTED TOPIC_LIMIT if one more topic has no room. `listened`: only a subscriber
  // names it.
  absl::Status CheckRoom(bool listened) const;
  // Adds a topic with the next number and writes its name. REQUIRES: the name is new.
  TopicEntry* Add(absl::string_view name, bool used);
  // Takes over a topic from the store; see Add.
  TopicEntry* Load(storage::TopicId id, absl::string_view name);
  // Replaces the decided version.
  void Set(TopicEntry* entry, Topic topic);
  // Gives the version these settings. The shards share its quota and its pace, so they stay when
  // the limit changes; Publish sets them.
  static void ApplySettings(const TopicSettings& settings, Topic* topic);
  // Writes the record of the phase and the settings.
  void Write(const TopicEntry& entry, TopicPhase phase, const TopicSettings& settings);
  // Removes the record: the topic is live with default settings.
  void WriteDefaults(const TopicEntry& entry);

  // ---- Subscriptions

  // RESOURCE_EXHAUSTED SUBSCRIPTION_LIMIT if the topic may not have one more subscription.
  absl::Status CheckRoomForSubscription(const TopicEntry& entry) const;
  // A number for one more subscription: the nameless one's, or a new one. REQUIRES: there is room.
  storage::SubscriptionId NextSubscription(TopicEntry* entry);
  uint32_t next_subscription() const { return next_subscription_; }
  void SetNextSubscription(uint32_t next) { next_subscription_ = next; }
  void WriteNextSubscription();
  uint64_t NextIncarnation() { return ++last_incarnation_; }
  // A settled subscription is not synced: a start that finds the phase before repeats its commands,
  // which do no harm twice.
  void Write(const SubscriptionEntry& entry);
  void Remove(const SubscriptionEntry& entry);

  // ---- The snapshot. REQUIRES: the change is committed.

  void Publish(const TopicPtr& topic);
  void Publish(const SubscriptionPtr& subscription);
  void Unpublish(const SubscriptionPtr& subscription);
  SubscriptionPtr FindPublished(storage::TopicId topic, absl::string_view name) const {
    return snapshot_.FindSubscription(topic, name);
  }
  // The snapshot if it has changed since the last call.
  std::shared_ptr<const Snapshot> TakeSnapshot();

  // For tests; O(entries).
  void CheckInvariants() const;

 private:
  void WriteObject(storage::ObjectKind kind, std::string name, std::string value,
                   storage::Durability durability);
  void EraseObject(storage::ObjectKind kind, std::string name, storage::Durability durability);
  static bool Counts(const Topic& topic) { return !topic.used; }

  const CatalogOptions options_;
  scheduler::PendingWrites* const writes_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<TopicEntry>> by_id_;
  absl::flat_hash_map<absl::string_view, TopicEntry*> by_name_;
  uint32_t next_topic_ = 1;
  // Topics that only subscribers have named.
  size_t listened_ = 0;
  // Numbers below are those of topics. 0: used up.
  uint32_t next_subscription_ = uint32_t{1} << 31;
  uint64_t last_incarnation_ = 0;
  Snapshot snapshot_;
  bool snapshot_changed_ = false;
};

// The published form of a decided subscription.
SubscriptionPtr Published(const SubscriptionEntry& entry);

}  // namespace duetime::catalog
