// SPDX-License-Identifier: Apache-2.0
//
// Endings: how messages end, as records.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

#include "server/scheduler/key_locks.h"
#include "server/scheduler/message_writer.h"
#include "storage/message_store.h"

namespace duetime::delivery {

// Writes the end of a message: the message goes, its tombstone stays for a while, and so does the
// entry of its key, which then ends with the tombstone.
//
// Thread safety: confined to the shard's engine thread.
class Endings {
 public:
  // REQUIRES: all pointers outlive it.
  Endings(uint16_t shard, storage::MessageStore* store, scheduler::MessageWriter* writer,
          scheduler::KeyLocks* key_locks)
      : shard_(shard), store_(store), writer_(writer), key_locks_(key_locks) {}

  // `bytes`: the size of the message's record. The tombstone's expire_ms is set here. An error
  // means that the store cannot be read. Cost: one read for a message with a key, none without.
  absl::Status Write(const storage::MessageKey& key, uint32_t bytes, uint64_t retention_ms,
                     storage::Tombstone tombstone, storage::Durability durability);

 private:
  // The message's key ends with it.
  absl::Status EndKey(const storage::MessageId& id, const storage::Tombstone& tombstone,
                      storage::Durability durability);

  const uint16_t shard_;
  storage::MessageStore* const store_;
  scheduler::MessageWriter* const writer_;
  scheduler::KeyLocks* const key_locks_;
};

}  // namespace duetime::delivery
