// SPDX-License-Identifier: Apache-2.0
//
// TopicRegistry: the names of topics, their numbers in this data directory, and what holds for
// them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/api/topics/topic_settings.h"
#include "server/base/mutex.h"
#include "server/protocol/topic_quota.h"
#include "storage/types.h"

namespace duetime::api {

// Maps topic names to ids and back, gives new names their ids, and keeps settings.
//
// A new name has an id at once but is known to be on disk only after a batch that named it was
// accepted; until then every command that uses it must carry it in new_topics (naming a topic twice
// is no error). A name never loses its id, so the views it hands out stay valid as long as the
// registry: a topic that was deleted is only hidden until it is used again.
//
// Guarantees: (1) one name has one id and one id one name; (2) at most `topics_max` names. Cost:
// one short lock and one hash look-up. Thread-safe.
class TopicRegistry {
 public:
  // A topic as seen by a request.
  struct Topic {
    storage::TopicId id{};
    // Points into the registry.
    absl::string_view name;
    // False: put the name into new_topics of the command that uses it.
    bool durable = false;
    // True: it had been deleted, and now it is there again with default settings. What is stored of
    // it has to be removed; said once.
    bool revived = false;
    bool deleted = false;
    TopicSettings settings;
    // Null as long as it never had a limit of pending messages.
    std::shared_ptr<protocol::TopicQuota> quota;
    // Null as long as it never had a rate.
    std::shared_ptr<protocol::TopicPace> pace = nullptr;
    // Where its dead letters go, once that is needed. Not known for a moment after its settings say
    // something else.
    storage::TopicId dead_letters{};
    // They are needed.
    bool makes_dead_letters = false;
  };

  // With `auto_create` false, only what was made on purpose (or used before) exists.
  explicit TopicRegistry(size_t topics_max, bool auto_create = true)
      : topics_max_(topics_max), auto_create_(auto_create) {}
  TopicRegistry(const TopicRegistry&) = delete;
  TopicRegistry& operator=(const TopicRegistry&) = delete;

  // Takes over what the store knows: names, and objects by name. Call once, before anything else.
  // More than topics_max are kept (the limit may have been lowered); then no new ones are.
  void Load(const std::vector<std::pair<storage::TopicId, std::string>>& topics,
            const std::vector<std::pair<std::string, TopicObject>>& objects = {});

  // What a topic is looked up for; kLook: to say what kSchedule would, and change nothing.
  enum class Use : uint8_t { kSchedule, kSubscribe, kCreate, kLook };

  // The topic called `name`, made if there is none. RESOURCE_EXHAUSTED TOPIC_LIMIT if there are too
  // many; NOT_FOUND TOPIC_NOT_FOUND if it would have to be made and is not made by use. Names that
  // have no message yet may take a tenth of the limit when it is subscribers who ask, so that
  // listening to names that nobody sends to leaves room for those that matter. With kLook a topic
  // that would have to be made has the id 0, which none has, and points to `name`.
  absl::Status Resolve(absl::string_view name, Use use, Topic* topic);

  // The topic called `name`, or nothing if there is none (or it was deleted).
  std::optional<Topic> Find(absl::string_view name);

  // The number of a name, also of a deleted one, whose messages and tombstones are still there.
  std::optional<Topic> FindEvenIfDeleted(absl::string_view name);

  // The name of `id`, or nothing.
  std::optional<absl::string_view> Name(storage::TopicId id);

  // A batch that named `id` is on disk. REQUIRES: `id` came from Resolve.
  void MarkDurable(storage::TopicId id);

  // Reserves a topic for one change of what is stored of it, until EndChange, and says what it is
  // before. Nothing if another change is under way. REQUIRES: the name is known.
  std::optional<Topic> BeginChange(absl::string_view name);
  // The change is on disk. False if the topic was to be deleted and got a message meanwhile: then
  // it stays as it was. REQUIRES: it was begun.
  bool Change(absl::string_view name, const TopicObject& object);
  // It holds everywhere, or was given up. REQUIRES: it was begun.
  void EndChange(absl::string_view name);

  // A shard has a message for `id`, which is being deleted or was: it is there, or there again with
  // default settings. True if what is stored of it has to be removed. REQUIRES: the id is known.
  bool NoteUsed(storage::TopicId id);

  // What the dead letters of `topic` go to is called so; empty if the name would be too long.
  static std::string DeadLettersName(const Topic& topic);
  // The dead letters of `topic` go to `dead_letters`, until its settings say otherwise. False if
  // they do so already.
  bool SetDeadLetters(storage::TopicId topic, const Topic& dead_letters);

  // Names greater than `after` that begin with `prefix`, in byte order, without deleted ones, at
  // most `limit`.
  std::vector<Topic> List(absl::string_view prefix, absl::string_view after, size_t limit);
  // The ids of all topics, deleted ones included.
  std::vector<storage::TopicId> Ids();
  // Those that shards have to be told of: with settings of their own, or deleted.
  std::vector<Topic> Special();

  // Changes whenever what Resolve says of a known topic may have changed; so a caller may keep an
  // answer.
  uint64_t version() const { return version_.load(std::memory_order_acquire); }
  // Topics with a name, without deleted ones.
  size_t size() const;

 private:
  struct Entry {
    storage::TopicId id{};
    std::string name;
    bool durable = false;
    bool deleted = false;
    bool changing = false;
    // Got a message since its change was begun.
    bool used = false;
    TopicSettings settings;
    std::shared_ptr<protocol::TopicQuota> quota;
    std::shared_ptr<protocol::TopicPace> pace;
    storage::TopicId dead_letters{};
    bool makes_dead_letters = false;
  };

  static Topic View(const Entry& entry);
  static void SetSettings(const TopicSettings& settings, Entry* entry);
  void Revive(Entry* entry) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entry* Add(storage::TopicId id, absl::string_view name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Entry* Known(absl::string_view name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t topics_max_;
  const bool auto_create_;
  std::atomic<uint64_t> version_{0};
  mutable base::Mutex mutex_;
  // A deque, because the maps and the callers point into it.
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<absl::string_view, Entry*> by_name_ ABSL_GUARDED_BY(mutex_);
  // For lists.
  std::map<absl::string_view, Entry*> sorted_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint32_t, Entry*> by_id_ ABSL_GUARDED_BY(mutex_);
  uint32_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  // Entries whose names are on disk.
  size_t durable_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t deleted_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace duetime::api
