// SPDX-License-Identifier: Apache-2.0
//
// Reads recurrences from the store. Each lies in the shard of its name.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "server/protocol/recurrence_state.h"
#include "storage/message_store.h"

namespace duetime::query {

// NOT_FOUND RECURRENCE_NOT_FOUND.
absl::StatusOr<protocol::RecurrenceState> ReadRecurrence(storage::MessageStore* store,
                                                         uint16_t shard, const std::string& name);

struct RecurrencePage {
  std::vector<protocol::RecurrenceState> recurrences;
  // Set if there may be more: the name to go on behind.
  std::optional<std::string> next;
};

// Recurrences with names greater than `after`, in order, at most `rows`. A page also ends early
// after 10,000 looks or 16 MiB.
absl::StatusOr<RecurrencePage> ReadRecurrences(storage::MessageStore* store,
                                               std::optional<storage::TopicId> topic,
                                               std::string after, size_t rows);

}  // namespace duetime::query
