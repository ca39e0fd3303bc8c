// SPDX-License-Identifier: Apache-2.0
//
// The states of messages that follow from a time or from a tombstone. Pure functions.
#pragma once

#include <cstdint>

#include "server/base/clock.h"
#include "server/protocol/replies.h"
#include "storage/locator.h"

namespace duetime::messages {

// The state of a message that no subscriber holds.
inline protocol::MessageState StateAt(uint64_t deliver_ms, base::Now now) {
  return deliver_ms <= now.wall_ms ? protocol::MessageState::kDue
                                   : protocol::MessageState::kScheduled;
}

// The state of a message that has ended.
protocol::MessageState StateOf(storage::EndState state);

// The outcome of a cancel or a reschedule of a message that has ended.
inline protocol::Outcome OutcomeOf(storage::EndState state) {
  return state == storage::EndState::kCancelled ? protocol::Outcome::kAlreadyCancelled
                                                : protocol::Outcome::kSettled;
}

}  // namespace duetime::messages
