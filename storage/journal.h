// SPDX-License-Identifier: Apache-2.0
//
// Journal: the log through which every change of state passes.
#pragma once

#include <cstdint>
#include <span>

#include "storage/types.h"

namespace duetime::storage {

// The outcome of an append. kUnknown exists because after a failed write neither a disk nor a
// network can say whether the data arrived.
enum class [[nodiscard]] AppendOutcome : uint8_t{
    // Every record is applied and, with kSynced, on stable storage.
    kAccepted,
    // No record of this call was applied, and none ever will be. The journal accepts no more
    // records.
    kFenced,
    // The write failed. The records may or may not exist after a restart. The journal is fenced
    // from now on.
    kUnknown,
};

enum class Durability : uint8_t {
  // The records are on stable storage when Append returns.
  kSynced,
  // The records survive a crash of the process but not of the machine. The next synced append makes
  // them durable.
  kBuffered,
};

// Appends batches of records and applies them to the store.
//
// Guarantees: (1) order: if a record survives a crash, so does every record that was appended
// before it, in any shard; (2) a batch is applied whole or not at all; (3) reads that begin after
// an accepted append see its records; (4) after any outcome but kAccepted, every later Append
// returns kFenced.
//
// Thread safety: one caller at a time (the committer). Reads of the store may run at the same time.
class Journal {
 public:
  virtual ~Journal() = default;

  // Appends the batches of a group in one write, and blocks until the write is done. Records of one
  // shard are applied in the given order. REQUIRES: batches of different shards touch different
  // keys.
  virtual AppendOutcome Append(std::span<const RecordBatch> group, Durability durability) = 0;

  // How often the caller appends an empty group if there is no other, in milliseconds. 0: never. By
  // these groups the members of a cell see that the leader is alive, and the leader sees that it
  // still leads. Constant.
  virtual uint64_t idle_append_ms() const { return 0; }

  // False while another machine may serve the same messages, as far as can be known at
  // base::Now::mono_ms: then no message may be handed out, and no call be answered from the store.
  // Always true if idle_append_ms() is 0. Thread-safe.
  virtual bool MayServe(uint64_t /*mono_ms*/) const { return true; }
};

}  // namespace duetime::storage
