// SPDX-License-Identifier: Apache-2.0
//
// Lists the files of a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "storage/checkpoint_file.h"

namespace duetime::storage {

// Lists the files below `directory`, in the order of their paths. INTERNAL if the operating system
// fails. Cost: opens each table.
absl::StatusOr<std::vector<CheckpointFile>> ListCheckpoint(const std::string& directory);

}  // namespace duetime::storage
