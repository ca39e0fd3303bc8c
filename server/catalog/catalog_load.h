// SPDX-License-Identifier: Apache-2.0
//
// Reads the catalog's tables from the store at the start.
#pragma once

#include "absl/status/status.h"

#include "server/catalog/catalog_state.h"
#include "server/scheduler/pending_writes.h"
#include "storage/message_store.h"

namespace duetime::catalog {

// Fills an empty `state`. Takes over a data directory up to format 3, in which shard 0 kept the
// settings of topics and every shard the names of its subscriptions. A topic whose deletion was
// decided, and that has a message, is live again; a deletion that was under way stays in
// TopicPhase::kDeleting, for the catalog to continue. Adds a record for each change.
absl::Status LoadCatalog(storage::MessageStore* store, uint16_t shards,
                         scheduler::PendingWrites* writes, CatalogState* state);

}  // namespace duetime::catalog
