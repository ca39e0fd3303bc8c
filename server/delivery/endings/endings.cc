// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/endings/endings.h"

#include <utility>

#include "server/base/check.h"
#include "server/scheduler/key_locks.h"
#include "server/scheduler/message_writer.h"

namespace duetime::delivery {

using scheduler::KeyLocks;
using storage::IndexKind;

absl::Status Endings::Write(const storage::MessageKey& key, uint32_t bytes, uint64_t retention_ms,
                            storage::Tombstone tombstone, storage::Durability durability) {
  DT_CHECK(tombstone.state != storage::EndState{});
  core_.writer.Erase(key, tombstone.topic, bytes, durability);
  tombstone.expire_ms = tombstone.end_ms + retention_ms;
  if (!tombstone.key.empty()) {
    if (absl::Status status = EndKey(key.id, tombstone, durability); !status.ok()) return status;
  }
  if (tombstone.revision == 0) {
    if (retention_ms > 0) core_.writer.PutTombstone(key.id, tombstone, durability);
  } else {
    // A moved message may have a locator, which must not point to the erased record.
    core_.writer.PutLocator(key.id, {.due_ms = 0, .tombstone = std::move(tombstone)}, durability);
  }
  return absl::OkStatus();
}

absl::Status Endings::EndKey(const storage::MessageId& id, const storage::Tombstone& tombstone,
                             storage::Durability durability) {
  DT_CHECK(!tombstone.key.empty());
  // The key may belong to another message by now, or a command is giving it to one.
  const auto kind = IndexKind::kUserKey;
  if (core_.key_locks.Locked(
          KeyLocks::Name(static_cast<uint8_t>(kind), tombstone.topic, tombstone.key))) {
    return absl::OkStatus();
  }
  auto entry = core_.store.GetIndex(core_.shard, tombstone.topic, kind, tombstone.key);
  // It is not known whose the key is, so the entry stays. Every call with this key is refused.
  if (storage::IsDamage(entry.status())) return absl::OkStatus();
  if (!entry.ok()) return entry.status();
  if (!entry->has_value() || (*entry)->id != id) return absl::OkStatus();
  (*entry)->expire_ms = tombstone.expire_ms;
  core_.writer.PutIndex(tombstone.topic, kind, tombstone.key, **entry, durability);
  return absl::OkStatus();
}

}  // namespace duetime::delivery
