// SPDX-License-Identifier: Apache-2.0
//
// WriteAll: writes to a descriptor until nothing is left.
#pragma once

#include <cerrno>
#include <unistd.h>

#include "absl/strings/string_view.h"

namespace duetime::cli {

// Returns false after an error, which is in errno.
inline bool WriteAll(int file, absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace duetime::cli
