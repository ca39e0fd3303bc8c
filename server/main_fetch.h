// SPDX-License-Identifier: Apache-2.0
//
// FetchCheckpoint: a member of a cell gets its store from the leader.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"

#include "server/config/config.h"

namespace duetime {

// INVALID_ARGUMENT, NOT_FOUND: the TLS files or the token of the configuration.
absl::Status CheckFetch(const config::Config& config);

// Takes a backup of the server at `address` into the data directory, where TakeFetched finds it.
// Blocks for as long as the leader's backup_bytes_per_second make it. CANCELLED once `stopped`
// returns true. Other errors: those of the calls, and of FetchedDirectory; a later attempt fetches
// the rest.
absl::Status FetchCheckpoint(const config::Config& config, const std::string& address,
                             const std::function<bool()>& stopped);

}  // namespace duetime
