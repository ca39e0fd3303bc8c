// SPDX-License-Identifier: Apache-2.0
//
// PrepareLog: an empty log becomes that of a store which was used alone.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"

#include "server/cell/log.h"
#include "storage/log_place.h"

namespace duetime::cell {

// For a server that becomes the first member of a cell. Puts one entry into the log, and returns
// the place after it, which the server's store must get. The first entry of a log decides whose it
// is: of several servers and new members that try at once, one has it, and the others find that out
// (this function; Replica::Step). The entry is a report without content from a member at `epoch`.
// An empty member cannot be there, so it fetches a copy of the store.
//
// `epoch`: the last epoch of the store, at least 1. Those of the log go on from there, so the ids
// of messages remain different. `number`: random; the log's identity.
//
// FAILED_PRECONDITION: the log has had other entries, and nothing was changed for their readers.
// Other errors: those of Log. After an error, the log may have the entry, and is then of no use.
absl::StatusOr<storage::LogPlace> PrepareLog(Log* log, uint64_t epoch, uint64_t number);

}  // namespace duetime::cell
