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

// From version 2 or 3 to 4: writes the new version, synced. Open() has already created the column
// family of version 3, which starts empty. Older data stays valid: the catalog converts the topics
// and subscriptions when it starts. REQUIRES: there is no other writer.
absl::Status UpgradeToVersion4(RocksDbDatabase* database);

}  // namespace duetime::storage
