// SPDX-License-Identifier: Apache-2.0
//
// VerifyDirectory: reads all of a data directory that no daemon has open.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace duetime::storage {

// Reads every block of every table and every log, decodes every record, and compares the database
// with the witness, the counters with the messages, and each key with its message. Changes nothing:
// it upgrades no old format and cuts off no torn log. If the files do not pass the checks of a
// start (StartCheck), or a start would cut off a torn end, it compares only the checksums of the
// tables, because RocksDB may end the process when it opens such files. Passes lines for people to
// `print`: each fault with its file, what lies there and, for messages, from when to when they are
// due.
//
// Returns
//   OK                   the directory is intact. A torn end that a start cuts off is intact, too;
//                        `*perhaps_lost` (may be null) tells if it may hold acknowledged records.
//   DATA_LOSS            `print` was told what is damaged.
//   UNAVAILABLE          a daemon has the directory open.
//   NOT_FOUND            there is no data directory at `data_dir`.
//   FAILED_PRECONDITION  the format is of another version.
//   INTERNAL             the operating system failed, for example at the limit of open files.
// Cost: reads the data twice; memory as for a start.
absl::Status VerifyDirectory(const std::string& data_dir,
                             const std::function<void(absl::string_view)>& print,
                             bool* perhaps_lost = nullptr);

}  // namespace duetime::storage
