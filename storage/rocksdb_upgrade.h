// SPDX-License-Identifier: Apache-2.0
//
// Brings a data directory of an older format to this program's.
#pragma once

#include "absl/status/status.h"

namespace duetime::storage {

class RocksDbDatabase;

// From version 1 to 2: counts the messages that are there, and ends with the new version, synced.
//
// Goes along the messages in batches. Each batch is one write with what it counted and with how
// far it came, so that a crash in between counts nothing twice and leaves nothing out; a start
// that finds such a place goes on from there. Cost: one pass over all messages (about a second for
// a million), and the memory of one batch. REQUIRES: nobody else writes.
absl::Status UpgradeToVersion2(RocksDbDatabase* database);

// From version 2 to 3: writes the new version, synced. The family it brought has been created when
// the database was opened, and is rightly empty; all that was there is read as it is. REQUIRES:
// nobody else writes.
absl::Status UpgradeToVersion3(RocksDbDatabase* database);

}  // namespace duetime::storage
