// SPDX-License-Identifier: Apache-2.0
//
// FetchCheckpoint: a member of a cell gets its store from the leader.
#pragma once

#include <functional>
#include <string>

#include "absl/status/status.h"

#include "server/config/config.h"
#include "storage/log_place.h"

namespace duetime {

// INVALID_ARGUMENT, NOT_FOUND: the TLS files or the token of the configuration.
absl::Status CheckFetch(const config::Config& config);

// Takes a copy of the leader's store into the data directory, where TakeFetched finds it.
// Blocks for as long as the leader's backup_bytes_per_second make it. CANCELLED once `stopped`
// returns true. Other errors: those of the calls, and of FetchedDirectory; a later attempt fetches
// the rest.
struct FetchFrom {
  std::string address;
  // Where this member is in the log.
  storage::LogPlace before;
};
absl::Status FetchCheckpoint(const config::Config& config, const FetchFrom& from,
                             const std::function<bool()>& stopped);

}  // namespace duetime
