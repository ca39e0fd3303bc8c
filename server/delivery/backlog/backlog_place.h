// SPDX-License-Identifier: Apache-2.0
//
// Places in a backlog. A place has the time of the message's next attempt, or its due time.
#pragma once

#include "storage/message_store.h"

namespace duetime::delivery {

// The key of a listed message.
inline storage::MessageKey KeyOf(const storage::BacklogRef& item) {
  const uint64_t due_ms = item.entry.due_ms != 0 ? item.entry.due_ms : item.key.due_ms;
  return {.due_ms = due_ms, .id = item.key.id};
}

// The next place after `place`.
inline storage::MessageKey After(storage::MessageKey place) {
  if (++place.id.low == 0) ++place.id.high;
  return place;
}

}  // namespace duetime::delivery
