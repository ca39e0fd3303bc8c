// SPDX-License-Identifier: Apache-2.0
//
// EtagOf: the number of one version of a message or of a recurrence, which clients compare.
#pragma once

#include <cstdint>

#include "server/base/mix.h"
#include "server/protocol/recurrence_state.h"
#include "storage/message_id.h"

namespace duetime::protocol {

// Different for each revision of a message. Two messages have an etag in common once in 2^64, so
// the etag of an earlier message with the same key does not match the later one.
constexpr uint64_t EtagOf(const storage::MessageId& id, uint64_t revision) {
  return base::Mix(id.high ^ base::Mix(id.low)) + revision;
}

// Likewise for recurrences. Two recurrences with the same name differ in the time or the content
// with which they were created.
inline uint64_t EtagOf(const RecurrenceState& state) {
  return base::Mix(state.create_ms ^ base::Mix(state.spec.content.low)) + state.revision;
}

}  // namespace duetime::protocol
