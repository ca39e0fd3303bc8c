// SPDX-License-Identifier: Apache-2.0
//
// Places in a backlog: when something is to be handed out next, which may be later than it was due.
#pragma once

#include "storage/message_store.h"

namespace duetime::delivery {

// Where the message is that is listed.
inline storage::MessageKey KeyOf(const storage::BacklogRef& item) {
  const uint64_t due_ms = item.entry.due_ms != 0 ? item.entry.due_ms : item.key.due_ms;
  return {.due_ms = due_ms, .id = item.key.id};
}

// The first place behind this one.
inline storage::MessageKey After(storage::MessageKey place) {
  if (++place.id.low == 0) ++place.id.high;
  return place;
}

}  // namespace duetime::delivery
