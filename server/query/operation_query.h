// SPDX-License-Identifier: Apache-2.0
//
// Reads bulk operations from the store. Each shard has its part of every operation.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "server/protocol/operation.h"
#include "storage/message_store.h"

namespace duetime::query {

// The parts of one operation, by shard.
using OperationParts = std::vector<protocol::Operation>;

// Empty if there is no such operation.
absl::StatusOr<OperationParts> ReadOperation(storage::MessageStore* store, const std::string& name);

struct OperationPage {
  std::vector<OperationParts> operations;
  // Set if there may be more: the name to go on behind.
  std::optional<std::string> next;
};

// Operations with names greater than `after`, in order, at most `rows`. A page also ends early
// after 10,000 looks.
absl::StatusOr<OperationPage> ReadOperations(storage::MessageStore* store,
                                             std::optional<storage::TopicId> topic,
                                             std::string after, size_t rows);

}  // namespace duetime::query
