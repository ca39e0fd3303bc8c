// SPDX-License-Identifier: Apache-2.0
//
// Journal: where every change of state goes before it happens.
#pragma once

#include <cstdint>
#include <span>

#include "storage/types.h"

namespace duetime::storage {

// Three outcomes, never two: "it failed" is not an answer a disk or a network can give.
enum class [[nodiscard]] AppendOutcome : uint8_t {
  // Every record is applied and, if asked, on stable storage.
  kAccepted,
  // Nothing of this call was applied, and nothing ever will be: this journal takes no more records.
  kFenced,
  // The write failed on the way: the records may or may not be there after a restart. The journal is fenced from here on.
  kUnknown,
};

enum class Durability : uint8_t {
  // On stable storage when Append returns.
  kSynced,
  // Survives a crash of the process, not of the machine. Becomes durable with the next synced append.
  kBuffered,
};

// Takes batches of records and applies them to the store.
//
// Guarantees: (1) order: if a record survives a crash, so does every record appended before it, of any shard; (2) a batch
// is applied whole or not at all; (3) what was accepted is visible to reads that begin afterwards; (4) after anything
// but kAccepted, every later Append returns kFenced.
//
// Thread safety: one caller at a time (the committer); reads of the store may run beside it.
class Journal {
 public:
  virtual ~Journal() = default;

  // Appends the batches of one group, as one write. Blocks until it is done. Batches of different shards do not touch the
  // same keys; records of one shard apply in the order given.
  virtual AppendOutcome Append(std::span<const RecordBatch> group, Durability durability) = 0;
};

}  // namespace duetime::storage
