// SPDX-License-Identifier: Apache-2.0
//
// RestoreDirectory: makes a data directory from a backup.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace duetime::storage {

// The list of a backup's files, in the form of sha256sum: it is written last, so that a backup
// without it is not complete.
inline constexpr absl::string_view kBackupSums = "SHA256SUMS";

// Copies the files of the backup in `source`, which `duetime backup` wrote, into a new data
// directory `into`, and compares each with its checksum. The new directory has a later epoch; its
// first start treats it as a copy (RocksDbStore::Open) and pauses all topics (restore_note.h).
// `snapshot_ms` is the time of the backup, `now_ms` that of the restore.
//
//   NOT_FOUND            `source` is not a backup, or is not complete.
//   DATA_LOSS            a file is missing or damaged. The error names it.
//   FAILED_PRECONDITION  `into` is not empty, lies within `source` or has too little free space; or
//                        a start would refuse the version of the format.
//   INTERNAL             the operating system failed.
// After an error, `into` holds no store. A crash leaves a directory "unfinished" in it.
// Cost: reads and writes each byte once. Memory: as for a start.
absl::Status RestoreDirectory(const std::string& source, const std::string& into,
                              uint64_t snapshot_ms, uint64_t now_ms);

}  // namespace duetime::storage
