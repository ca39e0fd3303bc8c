// SPDX-License-Identifier: Apache-2.0
//
// What lies in a data directory, as its file names show it.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace duetime::storage {

// True if the directory holds a store, whole or broken, or the beginning of one. Also true if that
// cannot be seen, because the next steps of a start then name the cause.
bool HoldsStore(const std::string& directory);

// This file allows the creation of a store in the directory that holds it, once.
std::string InitFile(const std::string& directory);

// FAILED_PRECONDITION, with the name of an entry, if the directory holds anything but lost+found,
// which a new ext4 file system has at its top, and what `may_stay` accepts (a whole path).
absl::Status CheckEmpty(const std::string& directory,
                        absl::FunctionRef<bool(const std::string&)> may_stay);

// CheckEmpty for a directory in which a start creates a store: the file `init`, what an interrupted
// start leaves, sockets, and files whose path begins with `own_file` (unless that is empty) may
// stay. REQUIRES: !HoldsStore(directory).
absl::Status CheckPlaceOfNewStore(const std::string& directory, const std::string& own_file);

}  // namespace duetime::storage
