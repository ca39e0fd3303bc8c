// SPDX-License-Identifier: Apache-2.0
//
// What a start with a test clock does otherwise.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "server/config/config.h"
#include "server/runtime/test_clock.h"
#include "storage/rocksdb/rocksdb_store.h"

namespace duetime {

// Null without config.clock.test_clock. With it, also fits the limits. REQUIRES: the config was
// checked.
std::unique_ptr<runtime::TestClock> MakeTestClock(config::Config* config);

// Nothing of such a store need survive the machine, and it has one shard unless asked.
void FitTestStore(storage::RocksDbStoreOptions* options);

// True if the store was made with a test clock.
absl::StatusOr<bool> IsTestStore(storage::RocksDbStore* store);

// FAILED_PRECONDITION if the store was made with a test clock and `clock` is null, or the other way
// round. Marks a new store. From then on the clock keeps its time in the data directory, and goes
// on from there. REQUIRES: nothing else uses the store or the clock.
absl::Status CheckTestStore(const config::Config& config, storage::RocksDbStore* store,
                            runtime::TestClock* clock);

}  // namespace duetime
