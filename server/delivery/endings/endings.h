// SPDX-License-Identifier: Apache-2.0
//
// Endings: writes the records with which messages end.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "server/delivery/core.h"
#include "storage/message_store.h"

namespace duetime::delivery {

// Writes the end of a message: erases the message and writes its tombstone. The index entry of its
// key expires with the tombstone.
//
// Thread safety: confined to the shard's engine thread.
class Endings {
 public:
  explicit Endings(const Core& core) : core_(core) {}

  // `bytes`: the size of the message's record. Sets the tombstone's expire_ms. An error means that
  // the store cannot be read. Cost: one read for a message with a key, none without.
  absl::Status Write(const storage::MessageKey& key, uint32_t bytes, uint64_t retention_ms,
                     storage::Tombstone tombstone, storage::Durability durability);

 private:
  // Lets the index entry of the message's key expire with the tombstone.
  absl::Status EndKey(const storage::MessageId& id, const storage::Tombstone& tombstone,
                      storage::Durability durability);

  const Core& core_;
};

}  // namespace duetime::delivery
