// SPDX-License-Identifier: Apache-2.0
//
// Endings: writes the records with which messages end.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "server/base/check.h"
#include "server/scheduler/key_locks.h"
#include "server/scheduler/message_writer.h"
#include "storage/message_store.h"

namespace duetime::delivery {

// Writes the end of a message: erases the message and writes its tombstone. The index entry of its
// key expires with the tombstone.
//
// Thread safety: confined to the shard's engine thread.
class Endings {
 public:
  // REQUIRES: all pointers outlive it.
  Endings(uint16_t shard, storage::MessageStore* store, scheduler::MessageWriter* writer,
          scheduler::KeyLocks* key_locks)
      : shard_(shard), store_(store), writer_(writer), key_locks_(key_locks) {
    DT_CHECK(store_ != nullptr);
    DT_CHECK(writer_ != nullptr);
    DT_CHECK(key_locks_ != nullptr);
  }

  // `bytes`: the size of the message's record. Sets the tombstone's expire_ms. An error means that
  // the store cannot be read. Cost: one read for a message with a key, none without.
  absl::Status Write(const storage::MessageKey& key, uint32_t bytes, uint64_t retention_ms,
                     storage::Tombstone tombstone, storage::Durability durability);

 private:
  // Lets the index entry of the message's key expire with the tombstone.
  absl::Status EndKey(const storage::MessageId& id, const storage::Tombstone& tombstone,
                      storage::Durability durability);

  const uint16_t shard_;
  storage::MessageStore* const store_;
  scheduler::MessageWriter* const writer_;
  scheduler::KeyLocks* const key_locks_;
};

}  // namespace duetime::delivery
