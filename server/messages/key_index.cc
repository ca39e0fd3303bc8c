// SPDX-License-Identifier: Apache-2.0
#include "server/messages/key_index.h"

#include <algorithm>
#include <string>

#include "server/base/check.h"
#include "server/messages/message_locks.h"

namespace duetime::messages {

using storage::Durability;
using storage::IndexEntry;
using storage::IndexKind;
using storage::MessageId;
using storage::TopicId;

KeyIndex::KeyIndex(const delivery::Core& core)
    : core_(core), request_retention_ms_(core.limits.request_retention_ms) {}

std::string KeyIndex::RequestName(const protocol::ScheduleOptions& options) {
  DT_CHECK(!options.request_id.empty());
  const bool keyed = !options.key.empty();
  const std::string& scope = keyed ? options.key : options.ordering_key;
  if (scope.empty()) return options.request_id;
  // UTF-8 has no byte 0xff, so no request id begins with it.
  DT_CHECK_LE(scope.size(), 255u);
  std::string name = {'\xff', keyed ? 'k' : 'o', static_cast<char>(scope.size())};
  return name + scope + options.request_id;
}

void KeyIndex::SetFirstId(TopicId topic, const MessageId& first) {
  if (first == MessageId{}) return;
  MessageId& known = first_ids_[topic];
  known = std::max(known, first);
}

bool KeyIndex::OfFormerTopic(TopicId topic, const MessageId& id) const {
  if (first_ids_.empty()) return false;
  const auto first = first_ids_.find(topic);
  return first != first_ids_.end() && id < first->second;
}

absl::StatusOr<IndexEntry> KeyIndex::Find(base::Now now, TopicId topic, IndexKind kind,
                                          absl::string_view name) const {
  DT_CHECK(!name.empty());
  // An uncommitted entry is not in the store yet.
  DT_CHECK(!core_.key_locks.Locked(MessageLocks::Name(static_cast<uint8_t>(kind), topic, name)));
  auto entry = core_.store.GetIndex(core_.shard, topic, kind, name);
  if (!entry.ok()) return entry.status();
  if (!entry->has_value()) return IndexEntry{};
  const uint64_t expire_ms = (*entry)->expire_ms;
  if (expire_ms != 0 && expire_ms <= now.wall_ms) return IndexEntry{};
  if (OfFormerTopic(topic, (*entry)->id)) return IndexEntry{};
  return **entry;
}

void KeyIndex::PutKey(TopicId topic, absl::string_view key, const IndexEntry& entry) {
  DT_CHECK(!key.empty());
  DT_CHECK(entry.id != MessageId{});
  core_.writer.PutIndex(topic, IndexKind::kUserKey, std::string(key), entry, Durability::kSynced);
}

void KeyIndex::PutRequest(base::Now now, TopicId topic, const protocol::ScheduleOptions& options,
                          const protocol::AcceptedMessage& answer) {
  DT_CHECK(!options.request_id.empty());
  DT_CHECK(answer.status.ok());
  DT_CHECK(answer.id != MessageId{});
  IndexEntry entry;
  entry.id = answer.id;
  entry.content = options.content;
  entry.expire_ms = now.wall_ms + request_retention_ms_;
  entry.outcome = static_cast<uint8_t>(answer.outcome);
  entry.deliver_ms = answer.deliver_ms;
  entry.accept_ms = answer.accept_ms;
  entry.old_deliver_ms = answer.old_deliver_ms;
  entry.previous = answer.previous_id.value_or(MessageId{});
  core_.writer.PutIndex(topic, IndexKind::kRequest, RequestName(options), entry,
                        Durability::kSynced);
}

}  // namespace duetime::messages
