// SPDX-License-Identifier: Apache-2.0
//
// Format versions: which data directories this program takes, and how it upgrades older ones.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace rocksdb {
class ColumnFamilyHandle;
class DB;
}  // namespace rocksdb

namespace duetime::storage {

class KvStore;

// The first version that later programs upgrade. Those before it were made before 1.0, with duetime
// 0.1.
inline constexpr uint32_t kFirstFormatVersion = 8;

// Upgrades a store from one version to the next. Appends what the next version adds, in any number
// of appends, each of which notes in UpgradeKey() how far it came: after a crash a later start
// calls the function again, also if only the caller's append was lost. That one is synced, has the
// new version and erases the note. REQUIRES: there is no other writer.
using FormatUpgrade = absl::Status (*)(KvStore* store);

// The upgrades from kFirstFormatVersion on, one for each version. FORMAT.md says what else a new
// version needs.
inline constexpr std::array<FormatUpgrade, 0> kFormatUpgrades = {};

// The version of FORMAT.md that this program reads and writes.
inline constexpr auto kFormatVersion =
    static_cast<uint32_t>(kFirstFormatVersion + kFormatUpgrades.size());

// Returns FAILED_PRECONDITION, with what the operator can do, unless `version` is in [oldest,
// newest]. REQUIRES: oldest >= kFirstFormatVersion.
absl::Status CheckFormatVersion(absl::string_view data_dir, uint64_t version, uint64_t oldest,
                                uint64_t newest);

// The same for a directory with `witness_version` in its witness. The witness is written after the
// database, so if the witness is of a version before kFirstFormatVersion, the database's own
// version counts. Reads the database only then, and does not change it.
absl::Status CheckFormatOfDirectory(const std::string& data_dir, uint64_t witness_version,
                                    uint64_t oldest, uint64_t newest);

// The same with the version in the witness file. OK if the version cannot be read.
absl::Status CheckFormatOfWitness(const std::string& data_dir, uint64_t oldest, uint64_t newest);

// The version in the family meta of a database. Empty if it cannot be read.
std::optional<uint64_t> FormatOfDb(rocksdb::DB* db, rocksdb::ColumnFamilyHandle* meta);

}  // namespace duetime::storage
