// SPDX-License-Identifier: Apache-2.0
#include "server/messages/bulk_changes.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "server/base/check.h"
#include "server/delivery/endings/dead_letter.h"
#include "server/delivery/topic_names.h"

namespace duetime::messages {

using storage::EndState;
using storage::MessageId;
using storage::MessageRef;
using storage::TopicId;

BulkChanges::BulkChanges(const delivery::Core& core, MessageFinder* finder, MessageLocks* locks,
                         KeyIndex* index, MessageChanges* changes)
    : core_(core), finder_(finder), locks_(locks), index_(index), changes_(changes) {}

absl::StatusOr<bool> BulkChanges::FindPending(base::Now now, const MessageId& id,
                                              FoundMessage* found) {
  absl::Status status = finder_->Find(now, id, found);
  // One message only: damage of the store itself is STORAGE_FAILED.
  if (absl::IsDataLoss(status)) return false;
  if (!status.ok()) return status;
  if (found->kind != FoundMessage::Kind::kPending) return false;
  DT_CHECK(found->key.id == id);
  status = finder_->Examine(now, found);
  if (absl::IsDataLoss(status)) return false;
  if (!status.ok()) return status;
  return true;
}

absl::StatusOr<bool> BulkChanges::Cancel(base::Now now, const MessageId& id, bool stop_redelivery) {
  FoundMessage found;
  absl::StatusOr<bool> pending = FindPending(now, id, &found);
  if (!pending.ok() || !*pending) return pending;
  const bool untouched = found.delivery.untouched();
  if (!untouched && !stop_redelivery) return false;
  absl::Status status = changes_->Cancel(now, found, /*redelivery_stopped=*/!untouched);
  if (!status.ok()) return status;
  return true;
}

absl::StatusOr<bool> BulkChanges::Move(base::Now now, const MessageId& id, uint64_t deliver_ms,
                                       uint64_t since_ms) {
  FoundMessage found;
  absl::StatusOr<bool> pending = FindPending(now, id, &found);
  if (!pending.ok() || !*pending) return pending;
  if (!found.delivery.untouched()) return false;
  storage::MessageRecord record = found.record;
  record.header.deliver_ms = deliver_ms;
  // The new time was not resolved from a local time.
  record.civil_time = record.time_zone = {};
  MessageRevision revision(std::move(record), std::max(now.wall_ms, since_ms));
  absl::Status status = changes_->Move(now, found, std::move(revision));
  if (!status.ok()) return status;
  return true;
}

std::string BulkChanges::OriginName(const storage::MessageRecord& letter) const {
  const storage::DeadLetterOrigin& origin = *letter.dead_letter;
  // The number that the topic had may belong to another topic by now.
  if (!origin.topic_name.empty()) return std::string(origin.topic_name);
  // Older programs wrote no name for a subscription without one.
  return core_.names.NameOfOrigin(origin.origin_topic, origin.id, letter.header.topic);
}

absl::StatusOr<bool> BulkChanges::KeyInFlight(base::Now now, TopicId topic, absl::string_view key) {
  if (key.empty()) return false;
  if (locks_->Locked(MessageLocks::KeyName(topic, key))) return true;
  const auto entry = finder_->FindName(now, topic, storage::IndexKind::kUserKey, key);
  if (storage::IsDamage(entry.status())) return false;
  if (!entry.ok()) return entry.status();
  return entry->id != MessageId{} && locks_->ChangeInFlight(entry->id);
}

absl::StatusOr<bool> BulkChanges::KeyIsFree(base::Now now, TopicId topic,
                                            const storage::DeadLetterOrigin& origin,
                                            storage::IndexEntry* entry) {
  if (origin.key.empty()) return false;
  auto holder = finder_->FindName(now, topic, storage::IndexKind::kUserKey, origin.key);
  // A key whose holder is not known may be in use.
  if (storage::IsDamage(holder.status())) return false;
  if (!holder.ok()) return holder.status();
  *entry = *holder;
  FoundMessage found;
  absl::Status status = finder_->Find(now, entry->id, &found);
  if (absl::IsDataLoss(status)) return false;
  if (!status.ok()) return status;
  // The entry has the content of its own message only.
  if (entry->id != origin.id) entry->content = {};
  return found.kind != FoundMessage::Kind::kPending;
}

absl::StatusOr<BulkChanges::Redriven> BulkChanges::Redrive(base::Now now, const MessageId& id) {
  FoundMessage found;
  absl::StatusOr<bool> pending = FindPending(now, id, &found);
  if (!pending.ok()) return pending.status();
  if (!*pending || found.delivery.in_flight || !found.record.dead_letter.has_value()) {
    return Redriven::kNo;
  }
  const storage::DeadLetterOrigin& origin = *found.record.dead_letter;
  const std::string topic_name = OriginName(found.record);
  const TopicId topic = core_.names.Find(topic_name);
  if (topic == TopicId{}) return Redriven::kNo;
  const absl::StatusOr<bool> waits = KeyInFlight(now, topic, origin.key);
  if (!waits.ok()) return waits.status();
  if (*waits) return Redriven::kLater;
  const protocol::TopicQuota* const quota = core_.writer.QuotaOf(topic);
  if (quota != nullptr && !quota->HasRoom()) return Redriven::kNo;
  // From here on, nothing but a failed read keeps the message from its topic.
  const delivery::TopicNames::UsedTopic used = core_.names.Use(topic_name);
  if (used.topic != topic) return Redriven::kNo;
  // The catalog's command with the first id may come later. The ids of the topic must not be below.
  core_.scheduler.SkipIdsBefore(used.first_id);
  index_->SetFirstId(topic, used.first_id);
  storage::IndexEntry entry;
  const absl::StatusOr<bool> keep_key = KeyIsFree(now, topic, origin, &entry);
  if (!keep_key.ok()) return keep_key.status();
  auto again = delivery::MakeRedriven(found.bytes, topic, now.wall_ms, *keep_key);
  DT_CHECK(again.ok());  // its record was decoded, and it is a dead letter
  storage::MessageHeader header;
  DT_CHECK(storage::DecodeMessageHeader(*again, &header).ok());
  DT_CHECK(header.topic == topic);
  const MessageRef to = {
      .key = core_.scheduler.NewKey(now, id.slot(), now.wall_ms, /*spread_ms=*/0),
      .topic = topic,
      .bytes = static_cast<uint32_t>(again->size()),
      .flags = header.flags};
  absl::Status status = changes_->End(now, found, EndState::kCancelled,
                                      /*redelivery_stopped=*/!found.delivery.untouched());
  if (!status.ok()) return status;
  core_.scheduler.Put(now, to, *std::move(again));
  std::vector<MessageLocks::Name> locked;
  if (*keep_key) {
    // If the key leads nowhere or to a later message, the content of the origin is not known any
    // more.
    index_->PutKey(to.topic, origin.key, {.id = to.key.id, .content = entry.content});
    locks_->LockCreated(to.key.id, to.topic, origin.key, &locked);
  }
  core_.writes.Then([this, to, locked = std::move(locked)](base::Now then, bool ok) {
    if (ok) core_.scheduler.OnPut(to);
    for (const MessageLocks::Name& name : locked) locks_->Unlock(then, name, ok);
  });
  return Redriven::kYes;
}

}  // namespace duetime::messages
