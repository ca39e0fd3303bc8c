// SPDX-License-Identifier: Apache-2.0
//
// Reads recurrences from the store. A recurrence lies in the shard of its name.
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
  // Set if there may be more recurrences: the `after` of the next page.
  std::optional<std::string> next;
};

// The size of the page in memory, which is mostly the templates.
size_t AnswerSize(const RecurrencePage& page);

// Reads at most `rows` recurrences with names greater than `after`, in the order of names. A page
// also ends after it has examined 10,000 recurrences or read 16 MiB.
absl::StatusOr<RecurrencePage> ReadRecurrences(storage::MessageStore* store,
                                               std::optional<storage::TopicId> topic,
                                               std::string after, size_t rows);

}  // namespace duetime::query
