// SPDX-License-Identifier: Apache-2.0
//
// BackupTarget: where a backup is written, a directory or an archive on standard output.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace duetime::cli {

// The files that a backup has beside those of the server.
inline constexpr char kBackupSums[] = "SHA256SUMS";
inline constexpr char kBackupDescription[] = "backup.json";

// Takes the files of one backup in order, each as Begin, Write and End. The backup exists once
// Finish has returned OK; without it, nothing that restores remains.
class BackupTarget {
 public:
  virtual ~BackupTarget() = default;

  // Takes over a file of an earlier backup with the same bytes. Returns its SHA-256; "" if there is
  // none, or `check` is set and the file is damaged: the caller then writes it.
  virtual std::string Reuse(const std::string& path, int64_t bytes, const std::string& unique_id,
                            bool check) = 0;
  virtual absl::Status Begin(const std::string& path, int64_t bytes) = 0;
  virtual absl::Status Write(absl::string_view bytes) = 0;
  virtual absl::Status End() = 0;
  virtual absl::Status Finish() = 0;
  // The place for people: a directory, or "" for standard output.
  virtual std::string place() const = 0;
};

// A new directory `name` in `directory`, which is created if it is missing. Files of complete
// backups there are shared by hard links. FAILED_PRECONDITION if another backup is being written to
// `directory`.
absl::StatusOr<std::unique_ptr<BackupTarget>> OpenBackupDirectory(const std::string& directory,
                                                                  const std::string& name);

// A tar archive with a directory `name`.
std::unique_ptr<BackupTarget> BackupToStdout(const std::string& name);

// Removes all but the newest `keep` backups of a directory, of which `made` counts as the newest
// whatever its time. Returns how many it removed.
absl::StatusOr<int> RemoveOldBackups(const std::string& directory, size_t keep,
                                     const std::string& made);

}  // namespace duetime::cli
