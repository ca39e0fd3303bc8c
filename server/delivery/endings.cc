// SPDX-License-Identifier: Apache-2.0
#include "server/delivery/endings.h"

#include <utility>

namespace duetime::delivery {

using scheduler::Latches;
using storage::IndexKind;

absl::Status Endings::Write(const storage::MessageKey& key, uint32_t bytes, uint64_t retention_ms,
                            storage::Fate fate, storage::Durability durability) {
  writer_->Erase(key, fate.topic, bytes, durability);
  fate.expire_ms = fate.end_ms + retention_ms;
  if (!fate.key.empty()) {
    if (absl::Status status = EndKey(key.id, fate, durability); !status.ok()) return status;
  }
  // A message that was moved may have a trace, which must not go on to say where it is.
  if (retention_ms > 0 || fate.revision > 0) {
    writer_->PutTrace(key.id, {.due_ms = 0, .fate = std::move(fate)}, durability);
  }
  return absl::OkStatus();
}

absl::Status Endings::EndKey(const storage::MessageId& id, const storage::Fate& fate,
                             storage::Durability durability) {
  // The key may be another message's by now, or is just being given to one.
  const auto kind = IndexKind::kUserKey;
  if (latches_->Held(Latches::Name(static_cast<uint8_t>(kind), fate.topic, fate.key))) {
    return absl::OkStatus();
  }
  auto entry = store_->GetIndex(shard_, fate.topic, kind, fate.key);
  if (!entry.ok()) return entry.status();
  if (!entry->has_value() || (*entry)->id != id) return absl::OkStatus();
  (*entry)->expire_ms = fate.expire_ms;
  writer_->PutIndex(fate.topic, kind, fate.key, **entry, durability);
  return absl::OkStatus();
}

}  // namespace duetime::delivery
