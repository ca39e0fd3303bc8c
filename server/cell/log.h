// SPDX-License-Identifier: Apache-2.0
//
// Log: the log that the members of a cell share, such as one partition of Apache Kafka.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace duetime::cell {

struct LogEntry {
  uint64_t offset = 0;
  // When the log took it, by one clock for all entries, about. UTC milliseconds.
  uint64_t time_ms = 0;
  std::string bytes;
};

// True for errors after which the same call may succeed later.
inline bool MayTryAgain(const absl::Status& error) {
  return absl::IsUnavailable(error) || absl::IsDeadlineExceeded(error);
}

// One order of entries for all members. Offsets grow from entry to entry, perhaps with gaps. No
// call waits longer than a time that the log sets. An error, and a Read without an entry, come late
// enough that the caller may call again at once.
//
// Guarantees: (1) an entry that a reader has seen keeps its offset and is never lost; (2) a reader
// that goes on at the offset after an entry misses none. A Kafka partition gives (1) with acks=all,
// min.insync.replicas of two of three, no unclean election, and brokers from version 4.0 on, which
// show no entry that fewer replicas have (KIP-966); as long as no failure takes the unwritten pages
// of all these replicas at once. Replica notices most breaches.
//
// In errors, UNAVAILABLE and DEADLINE_EXCEEDED mean MayTryAgain. All other codes mean that the same
// call will not succeed: the entry is too large, the log is gone, the client has no right.
//
// Thread safety: one thread at a time for each member's object, but Trim on any thread.
class Log {
 public:
  virtual ~Log() = default;

  // Adds an entry at the end, and returns its offset once guarantee (1) holds for it. After an
  // error the entry may be in the log now, later, never, or more than once. Also after OK there may
  // be a second one.
  virtual absl::StatusOr<uint64_t> Append(absl::string_view bytes) = 0;

  // Returns the first entry at or after `offset`; nullopt if there is none yet. OUT_OF_RANGE: the
  // log begins after `offset`, because its older part was removed.
  virtual absl::StatusOr<std::optional<LogEntry>> Read(uint64_t offset) = 0;

  // Adds an entry perhaps. Does not wait for it.
  virtual void Post(absl::string_view bytes) = 0;

  // Removes entries before `offset`, some or all. Errors as for Append. Any thread.
  virtual absl::Status Trim(uint64_t offset) = 0;

  // Returns the offset after the last entry, not counting a gap at the end. At least the offset
  // after any entry that this member has read.
  virtual absl::StatusOr<uint64_t> End() = 0;
};

}  // namespace duetime::cell
