// SPDX-License-Identifier: Apache-2.0
#include "server/messages/message_states.h"

namespace duetime::messages {

protocol::MessageState StateOf(storage::EndState state) {
  switch (state) {
    case storage::EndState::kAcked:
      return protocol::MessageState::kAcked;
    case storage::EndState::kCancelled:
      return protocol::MessageState::kCancelled;
    case storage::EndState::kExpired:
      return protocol::MessageState::kExpired;
    case storage::EndState::kDeadLettered:
      return protocol::MessageState::kDeadLettered;
    case storage::EndState::kSkipped:
      return protocol::MessageState::kSkipped;
    case storage::EndState::kDropped:
      return protocol::MessageState::kDropped;
  }
  return protocol::MessageState::kUnspecified;
}

}  // namespace duetime::messages
