// SPDX-License-Identifier: Apache-2.0
//
// Reads bulk operations from the store. Each shard has a part of every operation.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "server/protocol/operation.h"
#include "storage/message_store.h"

namespace duetime::query {

using protocol::OperationParts;

// Empty if there is no such operation.
absl::StatusOr<OperationParts> ReadOperation(storage::MessageStore* store, const std::string& name);

struct OperationPage {
  std::vector<OperationParts> operations;
  // Set if there may be more operations: the `after` of the next page.
  std::optional<std::string> next;
};

// Reads at most `rows` operations with names greater than `after`, in the order of names. A page
// also ends after it has examined 10,000 operations.
absl::StatusOr<OperationPage> ReadOperations(storage::MessageStore* store,
                                             std::optional<storage::TopicId> topic,
                                             std::string after, size_t rows);

}  // namespace duetime::query
