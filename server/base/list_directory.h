// SPDX-License-Identifier: Apache-2.0
//
// ListDirectory: the entries of a directory, without an exception.
#pragma once

#include <filesystem>
#include <system_error>
#include <vector>

namespace duetime::base {

// Returns the entries in no order. After an error, sets `error` and returns the entries that were
// read before. A range-based loop over std::filesystem::directory_iterator throws in that case.
std::vector<std::filesystem::directory_entry> ListDirectory(const std::filesystem::path& directory,
                                                            std::error_code* error);

}  // namespace duetime::base
