// SPDX-License-Identifier: Apache-2.0
//
// AppliedState: the state that a member has built from the log.
#pragma once

#include <span>

#include "absl/status/status.h"

#include "storage/log_place.h"
#include "storage/types.h"

namespace duetime::cell {

using storage::LogPlace;

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
