// SPDX-License-Identifier: Apache-2.0
//
// FindLeader: who leads, for a member that cannot read the whole log.
#pragma once

#include <functional>
#include <string>

#include "absl/status/statusor.h"

#include "server/cell/log.h"

namespace duetime::cell {

// Reads the log from its end on until a leader's report comes, and returns the leader's address.
// CANCELLED once `stopped` returns true. Other errors as Log without the ones that pass.
absl::StatusOr<std::string> FindLeader(Log* log, const std::function<bool()>& stopped);

}  // namespace duetime::cell
