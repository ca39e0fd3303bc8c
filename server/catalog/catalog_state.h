// SPDX-License-Identifier: Apache-2.0
//
// CatalogState: the decided topics and subscriptions, and the snapshot of the committed ones.
#pragma once

#include <algorithm>
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

#include "server/catalog/catalog_errors.h"
#include "server/catalog/catalog_options.h"
#include "server/catalog/catalog_records.h"
#include "server/catalog/snapshot.h"
#include "server/catalog/topic.h"
#include "server/scheduler/pending_writes.h"
#include "storage/time_units.h"
#include "storage/types.h"

namespace duetime::catalog {

// A name ends at least this long after everything on disk that names its number: the clocks of two
// members of a cell differ, and a call or a shard may still hold the number.
inline constexpr uint64_t kNameSlackMs = storage::kHourMs;

// A subscription in its decided state. A topic has a nameless subscription until a client names
// one, and again after its last subscription is deleted.
struct SubscriptionEntry {
  storage::SubscriptionId id{};
  StoredSubscription stored;
  uint64_t incarnation = 0;
};

// A topic in its decided state.
struct TopicEntry {
  // The newest decided version. Readers may not see it yet.
  TopicPtr topic;
  TopicPhase phase = TopicPhase::kLive;
  // By name, without the nameless subscription.
  std::map<std::string, SubscriptionEntry, std::less<>> subscriptions;
  // The number for the next subscription, if the topic has a nameless one.
  std::optional<storage::SubscriptionId> nameless;
  // With a committed deletion: from then on, a new topic may take the number over. Else 0.
  uint64_t free_ms = 0;
  // With free_ms: the ids of the topic's messages are below this.
  storage::MessageId end_id{};
  // The longest tombstone retention of the topic's own settings, since it has this name.
  uint64_t longest_retention_ms = 0;
  // The time under which the snapshot lists the end of the name.
  std::optional<uint64_t> listed_ms;
};

// Two views of the same tables. The entries hold the decided state: a command decides from them,
// changes them, and adds a record for each change. The snapshot holds the committed state: after
// the commit of a batch, its continuations publish the new versions. The caller changes an entry
// and writes its record in one step, so that the records always give the same state as the entries.
//
// Guarantees: a topic keeps its number; a number gets another name only after EndOfName() of a
// deleted topic, and what still names the number has ids below Topic::first_id; no two
// subscriptions get the same new number. Thread safety: confined to the catalog's thread.
class CatalogState {
 public:
  // REQUIRES: `writes` outlives it.
  CatalogState(const CatalogOptions& options, scheduler::PendingWrites* writes);

  // The time of the present command.
  void SetNow(uint64_t now_ms) { now_ms_ = now_ms; }
  uint64_t now_ms() const { return now_ms_; }

  // ---- Topics

  // Null if no topic has this name.
  TopicEntry* Find(absl::string_view name);
  bool Contains(storage::TopicId id) const { return by_id_.contains(static_cast<uint32_t>(id)); }
  // REQUIRES: the number is known.
  TopicEntry* Of(storage::TopicId id);
  size_t topics() const { return by_id_.size(); }
  // Returns all entries in the order of their names. For the start.
  std::vector<TopicEntry*> All();

  // What it takes to make this topic live, or to reserve its name. Null: a new name. `reserve`: it
  // is for the dead letters of a topic that exists.
  TopicNeed NeedOf(const TopicEntry* entry, bool reserve = false) const;
  // RESOURCE_EXHAUSTED TOPIC_LIMIT if there is no room. `listened`: only a subscriber names the
  // first topic; such topics may take a tenth of topics_max.
  absl::Status CheckRoom(bool listened, const TopicNeed& need) const;
  // Adds a topic and writes its name. The topic takes over the number of the deleted topic whose
  // name has ended first. If there is none, or before AllowTakeOvers, it gets the next number. With
  // a number that was taken over, the shards must learn of Topic::first_id before a message comes.
  // REQUIRES: the name is new.
  TopicEntry* Add(absl::string_view name, bool used);
  // After the start: a repair may have brought old records back, so the start takes no number over.
  void AllowTakeOvers() { takes_over_ = true; }
  // Adds a topic that the store holds. REQUIRES: its number and its name are new.
  TopicEntry* Load(storage::TopicId id, absl::string_view name);
  // Replaces the decided version.
  void Set(TopicEntry* entry, Topic topic);
  // Writes the settings to `topic`. The quota and the pace stay the same objects, because the
  // shards share them. Publish sets their limits.
  static void ApplySettings(const TopicSettings& settings, Topic* topic);
  // Writes the topic's record with this phase and these settings, and what the entry has besides.
  void Write(const TopicEntry& entry, TopicPhase phase, const TopicSettings& settings,
             uint64_t free_ms = 0);
  // Writes the record of a live topic with default settings, or removes it if it would say nothing.
  void WriteDefaults(const TopicEntry& entry);

  // ---- The ends of names

  // When the name of this topic may end if it is deleted now. Until then, something on disk may
  // name its number: a tombstone, a request id, an ended operation.
  uint64_t EndOfName(const TopicEntry& entry) const {
    return now_ms_ + std::max(longest_retention_ms_, entry.longest_retention_ms) + kNameSlackMs;
  }
  // Lets the name of a deleted topic end at `free_ms`. `end_id`: as TopicEntry. REQUIRES: its
  // record is committed, or no message ever had its number.
  void SetEnd(TopicEntry* entry, uint64_t free_ms, const storage::MessageId& end_id);
  // Notes that the server may keep something with a topic's number for this time. Writes the
  // longest one.
  void NoteRetention(uint64_t retention_ms);
  void SetLongestRetention(uint64_t retention_ms) {
    longest_retention_ms_ = std::max(longest_retention_ms_, retention_ms);
  }

  // ---- Subscriptions

  // RESOURCE_EXHAUSTED SUBSCRIPTION_LIMIT if the topic may not have one more subscription.
  absl::Status CheckRoomForSubscription(const TopicEntry& entry) const;
  // Returns a number for one more subscription: that of the nameless subscription, or a new one.
  // REQUIRES: there is room.
  storage::SubscriptionId NextSubscription(TopicEntry* entry);
  uint32_t next_subscription() const { return next_subscription_; }
  void SetNextSubscription(uint32_t next) { next_subscription_ = next; }
  // Lets no new subscription get this number or a lower one.
  void ReserveSubscriptions(uint32_t greatest) {
    if (next_subscription_ != 0 && greatest >= next_subscription_) {
      next_subscription_ = greatest + 1;
    }
  }
  // Writes the number of the next subscription, and the longest retention.
  void WriteState();
  uint64_t NextIncarnation() { return ++last_incarnation_; }
  // Adds the subscription, or replaces the one of its name.
  void SetSubscription(TopicEntry* entry, SubscriptionEntry subscription);
  void SetSettings(SubscriptionEntry* subscription, protocol::SubscriptionSettings settings);
  // REQUIRES: the topic has the subscription.
  void EraseSubscription(TopicEntry* entry, const std::string& name);
  // Writes the subscription's record. The write is not synced if the subscription is live: a
  // start that finds the previous phase repeats the commands to the shards, which does no harm.
  void Write(const SubscriptionEntry& entry);
  void Remove(const SubscriptionEntry& entry);

  // ---- The snapshot. REQUIRES: the change is committed.

  void Publish(const TopicPtr& topic);
  // Publishes the topic after the commit of all decisions so far.
  void PublishLater(TopicPtr topic);
  void Publish(const SubscriptionPtr& subscription);
  void Unpublish(const SubscriptionPtr& subscription);
  SubscriptionPtr FindPublished(storage::TopicId topic, absl::string_view name) const {
    return snapshot_.FindSubscription(topic, name);
  }
  // Returns the snapshot if it has changed since the last call, else null.
  std::shared_ptr<const Snapshot> TakeSnapshot();

  // For tests; O(entries).
  void CheckInvariants() const;

 private:
  void WriteObject(storage::ObjectKind kind, std::string name, std::string value,
                   storage::Durability durability);
  void EraseObject(storage::ObjectKind kind, std::string name, storage::Durability durability);
  static bool Listened(const Topic& topic) { return !topic.used && !topic.deleted; }
  // True if topics_max counts the topic: it exists, or its name is reserved for the dead letters of
  // what exists.
  bool Counts(const Topic& topic) const {
    return !topic.deleted || links_.contains(static_cast<uint32_t>(topic.id));
  }
  // Replaces the decided version, also by one with another name.
  void Replace(TopicEntry* entry, Topic topic);
  // Gives the number whose name has ended first to the new name. Null: no name has ended.
  TopicEntry* TakeOver(absl::string_view name);
  // Lists the end of the entry's name in the snapshot, or removes it.
  void FollowEnd(TopicEntry* entry);
  void AddLink(storage::TopicId to);
  void RemoveLink(storage::TopicId to);
  bool IsDeleted(storage::TopicId id) const;

  const CatalogOptions options_;
  scheduler::PendingWrites* const writes_;
  absl::flat_hash_map<uint32_t, std::unique_ptr<TopicEntry>> by_id_;
  absl::flat_hash_map<absl::string_view, TopicEntry*> by_name_;
  uint32_t next_topic_ = 1;
  // The number of topics that only subscribers have named.
  size_t listened_ = 0;
  // The number of topics that topics_max counts.
  size_t counted_ = 0;
  // How many existing topics and subscriptions have this topic for their dead letters.
  absl::flat_hash_map<uint32_t, size_t> links_;
  // From 2^31, because lower numbers belong to the first subscriptions of topics. 0: all are used.
  uint32_t next_subscription_ = storage::kSecondSubscription;
  uint64_t last_incarnation_ = 0;
  uint64_t now_ms_ = 0;
  // Ended operations are kept a day.
  uint64_t longest_retention_ms_ = storage::kDayMs;
  Snapshot snapshot_;
  bool snapshot_changed_ = false;
  bool takes_over_ = false;
};

// Returns the published form of a decided subscription.
SubscriptionPtr Published(const SubscriptionEntry& entry);

}  // namespace duetime::catalog
