// SPDX-License-Identifier: Apache-2.0
//
// TopicRegistry: the names of topics and their numbers in this data directory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "server/base/mutex.h"
#include "storage/types.h"

namespace duetime::rpc {

// Maps topic names to ids and back, and gives new names their ids.
//
// A new name has an id at once but is known to be on disk only after a batch that named it was
// accepted; until then every command that uses it must carry it in new_topics (naming a topic twice
// is no error). A topic is never removed, so the views it hands out stay valid as long as the
// registry. Guarantees: (1) one name has one id and one id one name; (2) at most `topics_max`
// names. Cost: one short lock and one hash look-up. Thread-safe.
class TopicRegistry {
 public:
  // A topic as seen by a request.
  struct Topic {
    storage::TopicId id{};
    // Points into the registry.
    absl::string_view name;
    // False: put the name into new_topics of the command that uses it.
    bool durable = false;
  };

  explicit TopicRegistry(size_t topics_max) : topics_max_(topics_max) {}
  TopicRegistry(const TopicRegistry&) = delete;
  TopicRegistry& operator=(const TopicRegistry&) = delete;

  // Takes over what the store knows. Call once, before anything else. More than topics_max are kept
  // (the limit may have been lowered); then no new ones are.
  void Load(const std::vector<std::pair<storage::TopicId, std::string>>& topics);

  // What a topic is looked up for.
  enum class Use : uint8_t { kSchedule, kSubscribe };

  // The topic called `name`, made if there is none. RESOURCE_EXHAUSTED TOPIC_LIMIT if there are too
  // many. Names that have no message yet may take a tenth of the limit when it is subscribers who
  // ask, so that listening to names that nobody sends to leaves room for those that matter.
  absl::Status Resolve(absl::string_view name, Use use, Topic* topic);

  // The name of `id`, or nothing.
  std::optional<absl::string_view> Name(storage::TopicId id);

  // A batch that named `id` is on disk. REQUIRES: `id` came from Resolve.
  void MarkDurable(storage::TopicId id);

  size_t size() const;

 private:
  struct Entry {
    storage::TopicId id{};
    std::string name;
    bool durable = false;
  };

  Entry* Add(storage::TopicId id, absl::string_view name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const size_t topics_max_;
  mutable base::Mutex mutex_;
  // A deque, because the maps and the callers point into it.
  std::deque<Entry> entries_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<absl::string_view, Entry*> by_name_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint32_t, Entry*> by_id_ ABSL_GUARDED_BY(mutex_);
  uint32_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  // Entries whose names are on disk.
  size_t durable_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace duetime::rpc
