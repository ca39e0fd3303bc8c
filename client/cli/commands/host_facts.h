// SPDX-License-Identifier: Apache-2.0
//
// Facts about this machine for `duetime doctor`.
#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "client/cli/commands/findings.h"

namespace duetime::cli {

KernelClock ReadKernelClock();

// Measures synced writes to a small file in `directory`, which the call removes again. NOT_FOUND if
// there is no such directory.
absl::StatusOr<DiskFacts> ReadDisk(const std::string& directory);

// The server that uses the data directory. NOT_FOUND if no process of this machine does, or if this
// user may not look at it.
absl::StatusOr<ProcessFacts> ReadProcess(const std::string& directory);

// The limit of open files in the text of /proc/PID/limits; 0 if there is none.
int64_t ReadOpenFilesMax(const std::string& limits);

}  // namespace duetime::cli
