// SPDX-License-Identifier: Apache-2.0
//
// AppliedState: the state that a member has built from the log.
#pragma once

#include <cstdint>
#include <span>

#include "absl/status/status.h"

#include "storage/types.h"

namespace duetime::cell {

// How far a member has read the log.
struct LogPlace {
  // The next entry to read is at or after this offset.
  uint64_t offset = 0;
  // The last epoch that counted. 0: none.
  uint64_t epoch = 0;
  // The number of groups that counted, of all epochs, and their number when the epoch began.
  uint64_t groups = 0;
  uint64_t groups_before_epoch = 0;

  friend constexpr bool operator==(const LogPlace&, const LogPlace&) = default;
};

// Thread safety: one thread at a time.
class AppliedState {
 public:
  virtual ~AppliedState() = default;

  // The place of the last Apply; after a restart, that of an earlier one.
  virtual LogPlace place() const = 0;

  // Applies a group, which may be empty, and moves to `place`, together or not at all. It need not
  // be durable, because the log is. After an error the state cannot be used until a restart.
  virtual absl::Status Apply(std::span<const storage::RecordBatch> group,
                             const LogPlace& place) = 0;
};

}  // namespace duetime::cell
