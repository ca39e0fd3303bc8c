// SPDX-License-Identifier: Apache-2.0
//
// What main passes to its parts beside their knobs, and the exit codes of their errors.
#pragma once

#include "absl/status/status.h"

#include "server/api/server.h"
#include "server/metrics/collector.h"
#include "server/runtime/housekeeping.h"
#include "server/runtime/node.h"
#include "storage/rocksdb_store.h"

namespace duetime {

// The shards of a new store are half the cores. The store's warnings and errors go to the daemon's
// log.
storage::RocksDbStoreOptions StoreOptionsOf(const storage::StoreOptions& knobs);

// `store` outlives the housekeeping.
runtime::StoreTasks TasksOf(storage::RocksDbStore* store);

// Everything that knows something worth measuring.
struct Measured {
  const runtime::Node* node;
  base::Clock* clock;
  const storage::RocksDbStore* store;
  const api::Server* grpc;
  const runtime::Housekeeping* housekeeping;
};
metrics::Readings ReadAll(const Measured& from);

// What the process returns when the store does not open: 65 if its data is damaged, 73 if another
// process has it, else 1.
int StoreExitCode(const absl::Status& status);

}  // namespace duetime
