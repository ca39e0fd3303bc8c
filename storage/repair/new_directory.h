// SPDX-License-Identifier: Apache-2.0
//
// NewDirectory: a data directory that appears at once, when it is complete.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace duetime::storage {

// Holds the new store and a scratch directory in `into`/unfinished until Publish. A start of the
// daemon does not look there. A crash leaves that directory behind.
class NewDirectory {
 public:
  // Creates `into` if it is missing. FAILED_PRECONDITION if it holds anything but lost+found or
  // lies within `source`. INTERNAL if the operating system fails.
  static absl::StatusOr<std::unique_ptr<NewDirectory>> Create(const std::string& source,
                                                              const std::string& into);
  // Removes what was not published.
  ~NewDirectory();
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

  // FAILED_PRECONDITION if the file system has no room for `bytes`, logs and compactions.
  absl::Status CheckRoom(uint64_t bytes) const;
  std::string scratch() const { return path_ + "/source"; }
  std::string store() const { return path_ + "/store"; }
  // Moves the store to its place. REQUIRES: it is complete and closed.
  absl::Status Publish();

 private:
  explicit NewDirectory(const std::string& into) : into_(into), path_(into + "/unfinished") {}

  const std::string into_;
  const std::string path_;
};

}  // namespace duetime::storage
