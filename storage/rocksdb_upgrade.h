// SPDX-License-Identifier: Apache-2.0
//
// Upgrades a data directory of an older format version.
#pragma once

#include "absl/status/status.h"

namespace duetime::storage {

class RocksDbDatabase;

// From version 1 to 2: counts the stored messages, and ends with a synced write of the new version.
//
// The upgrade walks over the messages in batches. Each batch is one write that holds its counts and
// the key where the next batch begins, so a crash neither repeats nor skips a message. A later
// start continues at that key. Cost: one pass over all messages (about 1 s per million) and the
// memory of one batch. REQUIRES: there is no other writer.
absl::Status UpgradeToVersion2(RocksDbDatabase* database);

// From version 2, 3 or 4 to 5: replaces the counters of hours and minutes by one for each day, and
// ends with a synced write of the new version. Open() has already created the column family of
// version 3, which starts empty. The catalog converts the topics and subscriptions of versions 2
// and 3 when it starts.
//
// Each write replaces whole days, so a crash neither repeats nor skips one. Cost: one pass over the
// counters and the memory of one batch. REQUIRES: there is no other writer.
absl::Status UpgradeToVersion5(RocksDbDatabase* database);

// From version 5 on: writes only the newest version, synced, because readers still know the older
// forms. REQUIRES: there is no other writer.
absl::Status UpgradeToNewest(RocksDbDatabase* database);

}  // namespace duetime::storage
