// SPDX-License-Identifier: Apache-2.0
//
// Reads the catalog's tables from the store at the start.
#pragma once

#include "absl/status/status.h"

#include "server/catalog/catalog_options.h"
#include "server/catalog/catalog_state.h"
#include "server/scheduler/pending_writes.h"
#include "storage/message_store.h"

namespace duetime::catalog {

// Fills an empty `state`. After a repair (storage/repair_note.h), joins the records of the catalog
// with those of the shards, and gives numbers only above those that any record names. A deleted
// topic, or one in deletion, that has messages becomes live again. A topic in deletion without
// messages stays in TopicPhase::kDeleting, and the catalog continues its deletion. The name of a
// deleted topic whose record has no time ends as if the topic were deleted now. Adds a record for
// each change.
absl::Status LoadCatalog(const CatalogOptions& options, storage::MessageStore* store,
                         scheduler::PendingWrites* writes, CatalogState* state);

}  // namespace duetime::catalog
