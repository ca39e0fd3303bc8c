// SPDX-License-Identifier: Apache-2.0
//
// FindLeader: who leads, for a member that cannot read the whole log.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"

#include "server/cell/applied_state.h"
#include "server/cell/log.h"

namespace duetime::cell {

// Reads the log from its end on until a leader's report comes, and returns the leader's address.
//   CANCELLED    `stopped` returned true
//   DATA_LOSS    the log is not the one that this member has applied, up to `place`
//   other errors of the log without the ones that pass
absl::StatusOr<std::string> FindLeader(Log* log, const LogPlace& place,
                                       const std::function<bool()>& stopped);

}  // namespace duetime::cell
