// SPDX-License-Identifier: Apache-2.0
//
// AuditLog: who did what, as JSON lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace duetime::runtime {

struct AuditOptions {
  // A file, or "stderr": then the lines are part of the log, each as "audit {...}". Empty: no audit
  // log.
  std::string audit_log;
  // Also has each Cancel and CancelBatch.
  bool audit_cancels = false;
  // A file that would become larger is renamed to FILE.1, FILE.1 to FILE.2 and so on; the last one
  // is deleted.
  uint64_t audit_file_bytes_max = 64 << 20;
  uint64_t audit_files_max = 10;
};

// One line. It has no payload and no token.
struct AuditEntry {
  std::string principal = "anonymous";
  std::string peer;
  std::string method;
  std::string topic;
  // The name or the id of what the call is about, if it is no topic.
  std::string object;
  // "OK", "PERMISSION_DENIED" ...
  std::string code;
  // The reason of the error.
  std::string reason;
};

// Writes lines in a thread of its own, so that a disk that stalls stalls no call. If 8,192 lines
// wait, the oldest are lost and counted; so are lines that the disk refuses. Thread-safe.
class AuditLog {
 public:
  // Null if the options want none. An error names the file that cannot be written.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const AuditOptions& options);
  ~AuditLog();
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  void Write(uint64_t wall_ms, const AuditEntry& entry);
  bool cancels() const { return options_.audit_cancels; }
  // The lines that were lost because too many waited or the file could not be written, without
  // those of the log.
  uint64_t lost() const;

 private:
  struct Impl;
  AuditLog(const AuditOptions& options, std::unique_ptr<Impl> impl);

  const AuditOptions options_;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace duetime::runtime
