// SPDX-License-Identifier: Apache-2.0
//
// What a start with a test clock does otherwise.
#pragma once

#include <memory>

#include "absl/status/status.h"

#include "server/config/config.h"
#include "server/runtime/test_clock.h"
#include "storage/rocksdb/rocksdb_store.h"

namespace duetime {

// Null without config.clock.test_clock. With it, also fits the limits. REQUIRES: the config was
// checked.
std::unique_ptr<runtime::TestClock> MakeTestClock(config::Config* config);

// Nothing of such a store need survive the machine, and it has one shard unless asked.
void FitTestStore(storage::RocksDbStoreOptions* options);

// FAILED_PRECONDITION if the store was made with a test clock and `clock` is null, or the other way
// round. Notes the clock in a new store. In another one, moves the clock to where it was when that
// was noted last, or, after a crash, at least to where a message was due last. REQUIRES: nothing
// else uses the store.
absl::Status CheckTestStore(const config::Config& config, storage::RocksDbStore* store,
                            runtime::TestClock* clock);

// Notes the time of the clock. REQUIRES: as CheckTestStore.
absl::Status NoteTestTime(storage::RocksDbStore* store, uint64_t now_ms);

}  // namespace duetime
